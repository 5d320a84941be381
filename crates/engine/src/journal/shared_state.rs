//! Shared state that outlives a run: loaded when the run begins, written with the steps that change it.
//!
//! Values belong to a namespace. A change commits together with the step that records it, so a crash neither loses
//! nor repeats it. If two runs change the same name, the last commit wins.

use std::sync::Arc;

use provost_core::id::name::Namespace;
use provost_core::{StateChange, StateScope};
use provost_session::shared_state::StateOwners;
use provost_store::Tx;
use provost_store::table::state::shared_state::{self, SharedStateRow, StateOwner};
use provost_store::table::work::input::InputRow;
use serde_json::{Map, Value};

use crate::error::EngineError;
use crate::input::RunHeaderFields;
use crate::journal::transactional::{TxAction, TxActions};
use crate::sessions::Sessions;
use crate::worker::lease::Lease;

/// Returns the user of a run: the user that the first message names, otherwise its sender.
pub(crate) fn run_user(inputs: &[InputRow]) -> Result<Option<String>, EngineError> {
    let header_fields = inputs.first().map(RunHeaderFields::of).transpose()?;
    Ok(header_fields.and_then(RunHeaderFields::user))
}

/// Returns the owners of the shared state that a run can read and write.
pub(crate) fn owners(lease: &Lease, user: Option<&str>) -> StateOwners {
    StateOwners { session: Some(lease.session.clone()), user: user.map(ToOwned::to_owned) }
}

/// Loads the shared state that a run can read.
pub(crate) fn load(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
    user: Option<&str>,
) -> Result<Map<String, Value>, EngineError> {
    let mut values = Map::new();
    for row in shared_state::seen_by(tx, namespace, session, user)? {
        let scope = StateScope::parse(&row.scope).unwrap_or(StateScope::Run);
        values.insert(scope.name(&row.name), serde_json::from_str(&row.value)?);
    }
    Ok(values)
}

/// Returns a write that stores or removes these values of shared state, in the transaction that commits their step. Values
/// of a scope without an owner are skipped.
pub(crate) fn write_actions(
    lease: &Arc<Lease>,
    user: Option<&str>,
    changes: &[StateChange],
) -> TxActions {
    if changes.is_empty() {
        return TxActions::default();
    }
    let (lease, owners, changes) = (Arc::clone(lease), owners(lease, user), changes.to_vec());
    let action: TxAction = Arc::new(move |tx| {
        for StateChange { name, value } in &changes {
            let (scope, inner) = StateScope::split(name);
            let Some(owner) = owners.owner(scope) else { continue };
            match value {
                Some(value) => SharedStateRow {
                    namespace: lease.namespace.clone(),
                    scope: scope.as_str().to_owned(),
                    owner: owner.to_owned(),
                    name: inner.to_owned(),
                    value: value.to_string(),
                    run_id: lease.run,
                    updated: tx.now(),
                }
                .put(tx)?,
                None => {
                    let namespace = lease.namespace.as_str();
                    let owner = StateOwner { namespace, scope: scope.as_str(), id: owner };
                    shared_state::remove(tx, owner, inner)?;
                }
            }
        }
        Ok(())
    });
    TxActions(vec![action])
}

impl Sessions<'_> {
    /// Deletes all shared state of a session, a user or a namespace. Returns the number of deleted values.
    pub async fn delete_state(
        self,
        namespace: &Namespace,
        scope: StateScope,
        owner: &str,
    ) -> Result<u64, EngineError> {
        let (namespace, owner) = (namespace.clone(), owner.to_owned());
        let write = self.engine.store().write(move |tx| {
            let (namespace, scope) = (namespace.as_str(), scope.as_str());
            shared_state::forget(tx, StateOwner { namespace, scope, id: &owner })
        });
        Ok(write.await?)
    }
}
