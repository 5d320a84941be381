//! Shared state in the same file as the sessions. Deleting a session deletes its values.

use provost_core::{StateChange, StateScope};
use provost_store::Tx;
use provost_store::table::session_file::{SessionTables, ValueKey};
use serde_json::{Map, Value};

use super::SqliteSessionStore;
use super::transaction_error::{ALL_SESSIONS, TransactionError};
use crate::SessionError;
use crate::shared_state::{StateError, StateFuture, StateOwners, StateStore};

/// A value to set or to remove.
struct ValueChange {
    key: ValueKey,
    /// The value as JSON; `None` removes it.
    value: Option<String>,
}

/// The owner of values in one scope.
struct ScopeOwner {
    scope: StateScope,
    owner: String,
}

impl StateStore for SqliteSessionStore {
    fn load<'a>(&'a self, owners: &'a StateOwners) -> StateFuture<'a, Map<String, Value>> {
        let owners: Vec<_> = owners
            .all()
            .map(|(scope, owner)| ScopeOwner { scope, owner: owner.to_owned() })
            .collect();
        Box::pin(async move {
            self.read(ALL_SESSIONS, move |tx, tables| load(tx, tables, &owners))
                .await
                .map_err(state_error)
        })
    }

    fn commit<'a>(
        &'a self,
        owners: &'a StateOwners,
        changes: &'a [StateChange],
    ) -> StateFuture<'a, ()> {
        let changes: Vec<ValueChange> = changes
            .iter()
            .filter_map(|StateChange { name, value }| {
                let (scope, inner) = StateScope::split(name);
                let owner = owners.owner(scope)?.to_owned();
                let value = value.as_ref().map(Value::to_string);
                Some(ValueChange { key: ValueKey { scope, owner, name: inner.to_owned() }, value })
            })
            .collect();
        Box::pin(async move {
            self.write(ALL_SESSIONS, move |tx, tables| store(tx, tables, &changes))
                .await
                .map_err(state_error)
        })
    }

    fn delete_owner<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64> {
        let owner = owner.to_owned();
        Box::pin(async move {
            let delete = move |tx: &mut Tx<'_>, tables: &SessionTables| {
                Ok(tables.remove_values(tx, scope, &owner)?)
            };
            self.write(ALL_SESSIONS, delete).await.map_err(state_error)
        })
    }
}

/// Loads the values of all owners. The keys are names with their scope.
fn load(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    owners: &[ScopeOwner],
) -> Result<Map<String, Value>, TransactionError> {
    let mut found = Map::new();
    for ScopeOwner { scope, owner } in owners {
        for stored in tables.values(tx, *scope, owner)? {
            let name = scope.name(&stored.name);
            let value =
                serde_json::from_str(&stored.value).map_err(|error| SessionError::Corrupt {
                    id: owner.clone(),
                    problem: format!("the value `{name}` is not JSON: {error}"),
                })?;
            found.insert(name, value);
        }
    }
    Ok(found)
}

/// Sets and removes values.
fn store(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    changes: &[ValueChange],
) -> Result<(), TransactionError> {
    for ValueChange { key, value } in changes {
        match value {
            Some(value) => tables.set_value(tx, key, value)?,
            None => tables.remove_value(tx, key)?,
        }
    }
    Ok(())
}

/// Converts an error of the session file.
fn state_error(error: SessionError) -> StateError {
    StateError { message: error.to_string(), source: Some(Box::new(error)) }
}
