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
pub(super) fn without_shared(values: &mut Map<String, Value>) {
    values.retain(|name, _| !StateScope::is_shared(name));
}

fn only_shared(values: &Map<String, Value>) -> Map<String, Value> {
    let shared = values.iter().filter(|(name, _)| StateScope::is_shared(name));
    shared.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl DriverContext {
    fn shared(&self) -> Option<&BoundSharedState> {
        self.shared_options().bound.as_deref()
    }

    /// Rejects values that the caller set for a scope that the run does not have.
    pub(super) fn check_given(&self, options: &SharedStateOptions) -> Result<(), Error> {
        for name in &options.given {
            let value: Value = self.state.get(name).unwrap_or_default();
            self.state.check(name, &value).map_err(|problem| Error::Start(problem.to_string()))?;
        }
        Ok(())
    }

    /// Loads the stored values into the run's state. A run that was restored from its journal already has them.
    pub(super) async fn load_shared(
        &self,
        source: &RunSource,
    ) -> Result<SharedStateSnapshot, Error> {
        let Some(shared) = self.shared() else { return Ok(None) };
        if let RunSource::Restore(restored) = source {
            return Ok(Some(Box::new(only_shared(restored.run.state()))));
        }
        let stored = match &shared.keeper {
            SharedStateBackend::Store(store) => store.load(&shared.owners).await?,
            SharedStateBackend::Journal(stored) => Map::clone(stored),
        };
        self.state.fill(stored.clone(), &self.shared_options().given);
        // The agent's defaults are not changes.
        let mut base = only_shared(self.agents_own_state());
        base.extend(stored);
        Ok(Some(Box::new(base)))
    }
}

/// Returns the changes since the last call and records the values as known.
pub(super) fn changes(
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
    pub(super) fn on_shared(self, base: SharedStateSnapshot) -> Self {
        Self { shared_base: base, ..self }
    }

    /// Stores the shared values that changed. Does nothing if the journal stores them.
    pub(super) async fn save_shared_state(&mut self) -> Result<(), Error> {
        let Some(BoundSharedState { owners, keeper: SharedStateBackend::Store(store) }) =
            self.cx.shared()
        else {
            return Ok(());
        };
        let changes = changes(&mut self.shared_base, &self.cx.state.snapshot());
        if !changes.is_empty() {
            store.commit(owners, &changes).await?;
            self.cx.queue.emit(EventKind::StateChanged { changes });
        }
        Ok(())
    }
}
