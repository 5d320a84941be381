//! Values of the state that outlive a run, beside the sessions. What belongs to a session goes with it.

use crate::SessionError;
use crate::shared_state::{StateError, StateFuture, StateOwners, StateStore};
use provost_core::{StateChange, StateScope, Timestamp};
use rusqlite::{Connection, Transaction, params};
use serde_json::{Map, Value};

use super::SqliteSessions;
use super::fault::{ALL, fault};
use super::sql::Sql;

/// One value to set or to take away.
struct Row {
    scope: StateScope,
    owner: String,
    name: String,
    value: Option<String>,
}

impl StateStore for SqliteSessions {
    fn load<'a>(&'a self, owners: &'a StateOwners) -> StateFuture<'a, Map<String, Value>> {
        let owners: Vec<_> = owners.all().map(|(scope, owner)| (scope, owner.to_owned())).collect();
        Box::pin(
            async move { self.read(move |db, sql| load(db, sql, &owners)).await.map_err(failed) },
        )
    }

    fn commit<'a>(
        &'a self,
        owners: &'a StateOwners,
        changes: &'a [StateChange],
    ) -> StateFuture<'a, ()> {
        let rows: Vec<Row> = changes
            .iter()
            .filter_map(|StateChange { name, value }| {
                let (scope, inner) = StateScope::split(name);
                let owner = owners.owner(scope)?.to_owned();
                let value = value.as_ref().map(Value::to_string);
                Some(Row { scope, owner, name: inner.to_owned(), value })
            })
            .collect();
        let env = self.shared.env.clone();
        let work = move |tx: &Transaction<'_>, sql: &Sql| store(tx, sql, &rows, env.now());
        Box::pin(async move { self.writer.write(ALL, work).await.map_err(failed) })
    }

    fn forget<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64> {
        let owner = owner.to_owned();
        let work = move |tx: &Transaction<'_>, sql: &Sql| {
            let gone = tx.execute(&sql.forget_values, params![scope.as_str(), owner]);
            Ok(gone.map_err(|error| fault(ALL, error))? as u64)
        };
        Box::pin(async move { self.writer.write(ALL, work).await.map_err(failed) })
    }
}

fn load(
    db: &Connection,
    sql: &Sql,
    owners: &[(StateScope, String)],
) -> Result<Map<String, Value>, SessionError> {
    let mut found = Map::new();
    for (scope, owner) in owners {
        let read = || {
            let mut statement = db.prepare_cached(&sql.values)?;
            let rows = statement.query_map(params![scope.as_str(), owner], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        for (name, text) in read().map_err(|error| fault(ALL, error))? {
            let value = serde_json::from_str(&text).map_err(|error| SessionError::Corrupt {
                id: owner.clone(),
                problem: format!("the value `{}` is not JSON: {error}", scope.name(&name)),
            })?;
            found.insert(scope.name(&name), value);
        }
    }
    Ok(found)
}

fn store(
    tx: &Transaction<'_>,
    sql: &Sql,
    rows: &[Row],
    now: Timestamp,
) -> Result<(), SessionError> {
    for Row { scope, owner, name, value } in rows {
        let done = match value {
            Some(value) => tx.prepare_cached(&sql.set_value).and_then(|mut set| {
                set.execute(params![scope.as_str(), owner, name, value, now.as_millis()])
            }),
            None => tx
                .prepare_cached(&sql.remove_value)
                .and_then(|mut remove| remove.execute(params![scope.as_str(), owner, name])),
        };
        done.map_err(|error| fault(ALL, error))?;
    }
    Ok(())
}

fn failed(error: SessionError) -> StateError {
    StateError { message: error.to_string(), source: Some(Box::new(error)) }
}
