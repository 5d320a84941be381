//! BoundSharedState state: values that outlive the run. Loaded once, stored when they change.

use provost_core::{EventKind, StateChange, StateScope};
use serde_json::{Map, Value};

use super::Driver;
use super::setup::DriverContext;
use crate::error::Error;
use crate::run_builder::RunSource;
use crate::shared_state::{BoundSharedState, SharedStateBackend, SharedStateOptions};

/// The last known stored values. `None` if the run has no shared state.
pub(crate) type SharedStateSnapshot = Option<Box<Map<String, Value>>>;

/// Removes the shared values that a run had before it was suspended, because the stored values take precedence.
pub(super) fn remove_shared_values(values: &mut Map<String, Value>) {
    values.retain(|name, _| !StateScope::is_shared(name));
}

/// Returns the values whose names have a shared scope.
fn shared_values(values: &Map<String, Value>) -> Map<String, Value> {
    let shared = values.iter().filter(|(name, _)| StateScope::is_shared(name));
    shared.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl DriverContext {
    fn shared(&self) -> Option<&BoundSharedState> {
        self.shared_state_options().bound.as_deref()
    }

    /// Returns an error if the caller set a value for a scope that the run does not have.
    pub(super) fn check_given(&self, options: &SharedStateOptions) -> Result<(), Error> {
        for name in &options.given {
            let value: Value = self.state.get(name).unwrap_or_default();
            self.state.check(name, &value).map_err(|problem| Error::Start(problem.to_string()))?;
        }
        Ok(())
    }

    /// Loads the stored values into the run's state and returns them. A run that was restored from its journal already
    /// has them. `None` without shared state.
    pub(super) async fn load_shared(
        &self,
        source: &RunSource,
    ) -> Result<SharedStateSnapshot, Error> {
        let Some(shared) = self.shared() else { return Ok(None) };
        if let RunSource::Restore(restored) = source {
            return Ok(Some(Box::new(shared_values(restored.run.state()))));
        }
        let stored = match &shared.keeper {
            SharedStateBackend::Store(store) => store.load(&shared.owners).await?,
            SharedStateBackend::Journal(stored) => Map::clone(stored),
        };
        self.state.fill(stored.clone(), &self.shared_state_options().given);
        // The agent's defaults are not changes.
        let mut base = shared_values(self.initial_state());
        base.extend(stored);
        Ok(Some(Box::new(base)))
    }
}

/// Returns the changes since the last call, and records the values as known.
pub(super) fn take_changes(
    base: &mut SharedStateSnapshot,
    state: &Map<String, Value>,
) -> Vec<StateChange> {
    let Some(base) = base else { return Vec::new() };
    let changes = StateChange::between(base, state);
    for StateChange { name, value } in &changes {
        match value {
            Some(value) => base.insert(name.clone(), value.clone()),
            None => base.remove(name),
        };
    }
    changes
}

impl Driver {
    /// Sets the known stored values.
    pub(super) fn with_shared_base(self, base: SharedStateSnapshot) -> Self {
        Self { shared_base: base, ..self }
    }

    /// Stores the shared values that changed, and emits them. Does nothing if the journal stores them.
    pub(super) async fn save_shared_state(&mut self) -> Result<(), Error> {
        let Some(BoundSharedState { owners, keeper: SharedStateBackend::Store(store) }) =
            self.cx.shared()
        else {
            return Ok(());
        };
        let changes = take_changes(&mut self.shared_base, &self.cx.state.snapshot());
        if !changes.is_empty() {
            store.commit(owners, &changes).await?;
            self.cx.events.emit(EventKind::StateChanged { changes });
        }
        Ok(())
    }
}
