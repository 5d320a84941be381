//! Values that prompts, hooks and tools read and write, stored with the run or for longer.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use provost_core::{SHARED_NAME_BYTES_MAX, SHARED_VALUE_BYTES_MAX, StateScope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde_json::{Map, Value};

/// A run's own notes: prompts, hooks and tools read and write them, and a suspended run takes them along.
///
/// A value lives as long as its name says: `topic` as long as the run, `session:topic` as long as the conversation,
/// `user:language` for all conversations of the user, `app:notice` for everybody. A run sees what was stored when it began
/// and what it set itself; of two runs that set the same name the last one wins.
///
/// Clones share the values.
///
/// ```
/// use provost_tool::{Scopes, State};
///
/// let state = State::scoped(Default::default(), Scopes { user: true, ..Scopes::default() });
/// state.set("user:language", "de")?;
/// assert_eq!(state.get::<String>("user:language").as_deref(), Some("de"));
/// assert!(state.set("session:topic", "tea").unwrap_err().to_string().contains("session"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct State(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    values: Mutex<Map<String, Value>>,
    scopes: Scopes,
}

/// The places beside the run itself in which a run can leave values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes {
    /// It is part of a conversation that is stored.
    pub session: bool,
    /// It is known for whom it runs.
    pub user: bool,
    /// Values for everybody are stored.
    pub app: bool,
}

impl Scopes {
    /// What is missing for a value of this scope, if something is.
    fn lack(self, scope: StateScope) -> Option<&'static str> {
        let (has, lack) = match scope {
            StateScope::Run => (true, ""),
            StateScope::Session => (self.session, "a session and a place for shared state"),
            StateScope::User => (self.user, "a user and a place for shared state"),
            StateScope::App => (self.app, "a place for shared state"),
        };
        (!has).then_some(lack)
    }
}

impl State {
    /// State with values in it, all of which end with the run.
    pub fn new(values: Map<String, Value>) -> Self {
        Self::scoped(values, Scopes::default())
    }

    /// State with values in it, some of which may outlive the run.
    pub fn scoped(values: Map<String, Value>, scopes: Scopes) -> Self {
        Self(Arc::new(Inner { values: Mutex::new(values), scopes }))
    }

    /// The value under a name, if it is there and of this type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let value = self.lock().get(name).cloned()?;
        serde_json::from_value(value).ok()
    }

    /// Sets a value. Refused are one that has no JSON form, and one for a scope that the run does not have or that is too
    /// large to be kept there.
    pub fn set(
        &self,
        name: impl Into<String>,
        value: impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let (name, value) = (name.into(), serde_json::to_value(value)?);
        self.check(&name, &value)?;
        // In what outlives a run there is no difference between nothing and no value.
        if value.is_null() && StateScope::is_shared(&name) {
            self.lock().remove(&name);
        } else {
            self.lock().insert(name, value);
        }
        Ok(())
    }

    /// Says why a value cannot be kept under a name.
    pub fn check(&self, name: &str, value: &Value) -> Result<(), serde_json::Error> {
        let (scope, inner) = StateScope::split(name);
        if scope == StateScope::Run {
            return Ok(());
        }
        let word = scope.as_str();
        if let Some(lack) = self.0.scopes.lack(scope) {
            let problem = format!("`{word}:` values need {lack}, which this run does not have");
            return Err(serde_json::Error::custom(problem));
        }
        if inner.is_empty() || name.len() > SHARED_NAME_BYTES_MAX {
            let problem = format!(
                "a `{word}:` name has 1 to {SHARED_NAME_BYTES_MAX} bytes, its scope included"
            );
            return Err(serde_json::Error::custom(problem));
        }
        let bytes = serde_json::to_string(value)?.len();
        if bytes > SHARED_VALUE_BYTES_MAX {
            let problem = format!(
                "`{name}` has {bytes} bytes, of which {SHARED_VALUE_BYTES_MAX} are kept: store it elsewhere and keep its name here"
            );
            return Err(serde_json::Error::custom(problem));
        }
        Ok(())
    }

    /// Takes a value out.
    pub fn remove(&self, name: &str) -> Option<Value> {
        self.lock().remove(name)
    }

    /// Puts stored values in, where none of the same name was given.
    pub fn fill(&self, stored: Map<String, Value>, given: &[String]) {
        let mut values = self.lock();
        for (name, value) in stored {
            if !given.contains(&name) {
                values.insert(name, value);
            }
        }
    }

    /// A copy of everything.
    pub fn snapshot(&self) -> Map<String, Value> {
        self.lock().clone()
    }

    /// A copy of everything in the form that templates read: `{{ user.language }}` is the value `user:language`, unless the
    /// run has a value `user` of its own.
    pub fn nested(&self) -> Map<String, Value> {
        let mut nested = Map::new();
        let mut shared: [Map<String, Value>; 3] = Default::default();
        for (name, value) in self.lock().iter() {
            let (scope, inner) = StateScope::split(name);
            match StateScope::SHARED.iter().position(|other| *other == scope) {
                Some(place) => shared[place].insert(inner.to_owned(), value.clone()),
                None => nested.insert(name.clone(), value.clone()),
            };
        }
        for (scope, values) in StateScope::SHARED.into_iter().zip(shared) {
            // Where values are shared, one that is not set yet can have a default.
            if self.0.scopes.app || !values.is_empty() {
                nested.entry(scope.as_str()).or_insert(Value::Object(values));
            }
        }
        nested
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Map<String, Value>> {
        self.0.values.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_scope_that_the_run_does_not_have_is_refused_by_name() {
        let state = State::default();
        for (name, lack) in
            [("session:a", "session"), ("user:a", "user"), ("app:a", "shared state")]
        {
            let problem = state.set(name, 1).unwrap_err().to_string();
            assert!(problem.contains(lack), "{problem}");
        }
        assert!(state.is_empty());
        state.set("users", 1).unwrap();
    }

    #[test]
    fn what_outlives_a_run_is_bounded() {
        let state = State::scoped(Map::new(), Scopes { user: true, ..Scopes::default() });
        let large = "x".repeat(SHARED_VALUE_BYTES_MAX);
        assert!(state.set("user:large", &large).is_err(), "the quotes count");
        state.set("large", &large).unwrap();
        assert!(state.set(format!("user:{large}"), 1).is_err());
        assert!(state.set("user:", 1).is_err());
        state.set("user:a", 1).unwrap();
        state.set("user:a", Value::Null).unwrap();
        assert_eq!(state.snapshot().len(), 1);
    }

    #[test]
    fn templates_see_scopes_as_objects_and_the_runs_own_names_first() {
        let values = json!({"a": 1, "user:b": 2, "app:c": 3, "app": "own"});
        let state = State::new(values.as_object().unwrap().clone());
        assert_eq!(Value::Object(state.nested()), json!({"a": 1, "app": "own", "user": {"b": 2}}));
    }

    #[test]
    fn what_is_stored_does_not_replace_what_was_given() {
        let state = State::new(json!({"user:a": 1, "user:b": 1}).as_object().unwrap().clone());
        let stored = json!({"user:a": 2, "user:b": 2, "user:c": 2});
        state.fill(stored.as_object().unwrap().clone(), &["user:a".to_owned()]);
        assert_eq!(Value::Object(state.snapshot()), json!({"user:a": 1, "user:b": 2, "user:c": 2}));
    }
}
