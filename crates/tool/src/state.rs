//! Values that live as long as the run and are stored with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A run's own notes: prompts, hooks and tools read and write them, and a suspended run takes them along.
///
/// Clones share the values.
#[derive(Debug, Clone, Default)]
pub struct State(Arc<Mutex<Map<String, Value>>>);

impl State {
    /// State with values in it.
    pub fn new(values: Map<String, Value>) -> Self {
        Self(Arc::new(Mutex::new(values)))
    }

    /// The value under a name, if it is there and of this type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let value = self.lock().get(name).cloned()?;
        serde_json::from_value(value).ok()
    }

    /// Sets a value. One that has no JSON form is refused.
    pub fn set(
        &self,
        name: impl Into<String>,
        value: impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let value = serde_json::to_value(value)?;
        self.lock().insert(name.into(), value);
        Ok(())
    }

    /// Takes a value out.
    pub fn remove(&self, name: &str) -> Option<Value> {
        self.lock().remove(name)
    }

    /// A copy of everything.
    pub fn snapshot(&self) -> Map<String, Value> {
        self.lock().clone()
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Map<String, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
