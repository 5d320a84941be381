//! Values that outlive the run: loaded once, stored as they change.

use provost_core::{EventKind, StateChange, StateScope};
use serde_json::{Map, Value};

use super::Driver;
use super::setup::Cx;
use crate::error::Error;
use crate::run_builder::RunSource;
use crate::shared_state::{Keeper, Shared, SharedOptions};

/// The shared values as they are stored, as far as a run knows; nothing where it has none.
pub(crate) type SharedBase = Option<Box<Map<String, Value>>>;

/// Takes the shared values out that a run had before it was suspended: what is stored by now counts.
pub(super) fn without_shared(values: &mut Map<String, Value>) {
    values.retain(|name, _| !StateScope::is_shared(name));
}

fn only_shared(values: &Map<String, Value>) -> Map<String, Value> {
    let shared = values.iter().filter(|(name, _)| StateScope::is_shared(name));
    shared.map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Cx {
    fn shared(&self) -> Option<&Shared> {
        self.shared_options().bound.as_deref()
    }

    /// Refuses values that were given for a scope that the run does not have.
    pub(super) fn check_given(&self, options: &SharedOptions) -> Result<(), Error> {
        for name in &options.given {
            let value: Value = self.state.get(name).unwrap_or_default();
            self.state.check(name, &value).map_err(|problem| Error::Start(problem.to_string()))?;
        }
        Ok(())
    }

    /// Loads what is stored into the run's state; a run that was folded from its journal has it already.
    pub(super) async fn load_shared(&self, source: &RunSource) -> Result<SharedBase, Error> {
        let Some(shared) = self.shared() else { return Ok(None) };
        if let RunSource::Restore(restored) = source {
            return Ok(Some(Box::new(only_shared(restored.run.state()))));
        }
        let stored = match &shared.keeper {
            Keeper::Store(store) => store.load(&shared.owners).await?,
            Keeper::Journal(stored) => Map::clone(stored),
        };
        self.state.fill(stored.clone(), &self.shared_options().given);
        // What the agent has for want of anything stored is not a change.
        let mut base = only_shared(self.agents_own_state());
        base.extend(stored);
        Ok(Some(Box::new(base)))
    }
}

/// What changed since the values were last looked at, which they now were.
pub(super) fn changes(base: &mut SharedBase, state: &Map<String, Value>) -> Vec<StateChange> {
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
    /// The driver of a run whose shared values are stored like this.
    pub(super) fn on_shared(self, base: SharedBase) -> Self {
        Self { shared_base: base, ..self }
    }

    /// Stores the shared values that changed; where there is a journal, it has done that.
    pub(super) async fn keep_shared(&mut self) -> Result<(), Error> {
        let Some(Shared { owners, keeper: Keeper::Store(store) }) = self.cx.shared() else {
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
