//! State values that prompts, hooks and tools read and write. They live as long as the run, or longer.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use provost_core::{SHARED_NAME_BYTES_MAX, SHARED_VALUE_BYTES_MAX, StateScope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde_json::{Map, Value};

/// State of a run. Prompts, hooks and tools read and write it, and a suspended run keeps it.
///
/// The prefix of a name sets the lifetime of its value: `topic` lives as long as the run, `session:topic` as long as
/// the conversation, `user:language` is shared by all conversations of the user, and `app:notice` by all users. A run
/// sees the values that were stored when it began and the values it sets itself. If two runs set the same name, the
/// last write wins.
///
/// Clones share the values.
///
/// ```
/// use provost_tool::{StateScopes, State};
///
/// let state = State::scoped(Default::default(), StateScopes { user: true, ..StateScopes::default() });
/// state.set("user:language", "de")?;
/// assert_eq!(state.get::<String>("user:language").as_deref(), Some("de"));
/// assert!(state.set("session:topic", "tea").unwrap_err().to_string().contains("session"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct State(Arc<Inner>);

/// Values and scopes that the clones of a state share.
#[derive(Debug, Default)]
struct Inner {
    values: Mutex<Map<String, Value>>,
    scopes: StateScopes,
}

/// Scopes beyond the run in which the run can store values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateScopes {
    /// The run belongs to a stored conversation.
    pub session: bool,
    /// The user of the run is known.
    pub user: bool,
    /// Values for all users are stored.
    pub app: bool,
}

impl StateScopes {
    /// Returns a description of the services that a run needs for values of a scope. `None` if the run has the scope.
    fn missing_requirement(self, scope: StateScope) -> Option<&'static str> {
        let (has, requirement) = match scope {
            StateScope::Run => (true, ""),
            StateScope::Session => (self.session, "a session and a store for shared state"),
            StateScope::User => (self.user, "a user and a store for shared state"),
            StateScope::App => (self.app, "a store for shared state"),
        };
        (!has).then_some(requirement)
    }
}

impl State {
    /// Creates state whose values all end with the run.
    pub fn new(values: Map<String, Value>) -> Self {
        Self::scoped(values, StateScopes::default())
    }

    /// Creates state whose values may outlive the run in the given scopes.
    pub fn scoped(values: Map<String, Value>, scopes: StateScopes) -> Self {
        Self(Arc::new(Inner { values: Mutex::new(values), scopes }))
    }

    /// Returns the value of a name. `None` if there is none, or if it has another type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let value = self.lock().get(name).cloned()?;
        serde_json::from_value(value).ok()
    }

    /// Sets a value. A null value removes a shared value. Returns an error if the value has no JSON form, the run does
    /// not have the scope, or the value is too large for it.
    pub fn set(
        &self,
        name: impl Into<String>,
        value: impl Serialize,
    ) -> Result<(), serde_json::Error> {
        let (name, value) = (name.into(), serde_json::to_value(value)?);
        self.check(&name, &value)?;
        // In shared scopes, null and no value are the same.
        if value.is_null() && StateScope::is_shared(&name) {
            self.lock().remove(&name);
        } else {
            self.lock().insert(name, value);
        }
        Ok(())
    }

    /// Returns an error with the reason if a value cannot be stored under a name.
    pub fn check(&self, name: &str, value: &Value) -> Result<(), serde_json::Error> {
        let (scope, inner) = StateScope::split(name);
        if scope == StateScope::Run {
            return Ok(());
        }
        let prefix = scope.as_str();
        if let Some(missing) = self.0.scopes.missing_requirement(scope) {
            let problem =
                format!("`{prefix}:` values need {missing}, which this run does not have");
            return Err(serde_json::Error::custom(problem));
        }
        if inner.is_empty() || name.len() > SHARED_NAME_BYTES_MAX {
            let problem = format!(
                "the name of a `{prefix}:` value must have 1 to {SHARED_NAME_BYTES_MAX} bytes, including the prefix"
            );
            return Err(serde_json::Error::custom(problem));
        }
        let bytes = serde_json::to_string(value)?.len();
        if bytes > SHARED_VALUE_BYTES_MAX {
            let problem = format!(
                "`{name}` has {bytes} bytes, the maximum is {SHARED_VALUE_BYTES_MAX}: store it elsewhere and keep a reference here"
            );
            return Err(serde_json::Error::custom(problem));
        }
        Ok(())
    }

    /// Removes a value and returns it. `None` if there is none.
    pub fn remove(&self, name: &str) -> Option<Value> {
        self.lock().remove(name)
    }

    /// Adds stored values, except for the names in `given`. Existing values are replaced.
    pub fn fill(&self, stored: Map<String, Value>, given: &[String]) {
        let mut values = self.lock();
        for (name, value) in stored {
            if !given.contains(&name) {
                values.insert(name, value);
            }
        }
    }

    /// Returns a copy of all values.
    pub fn snapshot(&self) -> Map<String, Value> {
        self.lock().clone()
    }

    /// Returns a copy of all values in the form that templates read: `{{ user.language }}` is the value
    /// `user:language`, unless the run has a value named `user`.
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
            // If values are shared, a template can give a default for a missing one.
            if self.0.scopes.app || !values.is_empty() {
                nested.entry(scope.as_str()).or_insert(Value::Object(values));
            }
        }
        nested
    }

    /// Returns true if there are no values.
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
        let state = State::scoped(Map::new(), StateScopes { user: true, ..StateScopes::default() });
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
