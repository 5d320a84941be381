//! Scopes of state values. The prefix of a name sets how long its value lives and which runs see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum size in bytes of a shared value (one that outlives its run), as JSON.
pub const SHARED_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length in bytes of the name of a shared value, including the scope prefix.
pub const SHARED_NAME_BYTES_MAX: usize = 256;

/// Visibility and lifetime of a state value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateScope {
    /// One run. The name has no prefix.
    Run,
    /// All runs of a session: `session:topic`.
    Session,
    /// All runs on behalf of a user, in every session: `user:language`.
    User,
    /// All runs of the application: `app:notice`.
    App,
}

impl StateScope {
    /// The scopes whose values outlive a run.
    pub const SHARED: [Self; 3] = [Self::Session, Self::User, Self::App];

    /// Splits a name into its scope and the name without the prefix. A name without a known prefix belongs to the
    /// run.
    pub fn split(name: &str) -> (Self, &str) {
        let shared = Self::SHARED.into_iter().find_map(|scope| {
            let inner = name.strip_prefix(scope.as_str())?.strip_prefix(':')?;
            Some((scope, inner))
        });
        shared.unwrap_or((Self::Run, name))
    }

    /// Returns true if the value of this name outlives its run.
    pub fn is_shared(name: &str) -> bool {
        Self::split(name).0 != Self::Run
    }

    /// Returns the full name of a value in this scope, as a run writes it.
    pub fn name(self, inner: &str) -> String {
        match self {
            Self::Run => inner.to_owned(),
            shared => format!("{}:{inner}", shared.as_str()),
        }
    }

    /// Returns the stable name of the scope.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::User => "user",
            Self::App => "app",
        }
    }

    /// Parses the stable name of a scope. `None` if the name is unknown.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Run, Self::Session, Self::User, Self::App]
            .into_iter()
            .find(|scope| scope.as_str() == word)
    }
}

/// Change of a shared value. It sets or removes the value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    /// Name with the scope prefix.
    pub name: String,
    /// The new value; `None` removes it.
    #[serde(default)]
    pub value: Option<Value>,
}

impl StateChange {
    /// Returns the changes that turn the shared values of `before` into those of `after`.
    ///
    /// Each change names one value, so that two runs that change different values do not overwrite each other.
    pub fn between(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<Self> {
        let shared = |name: &&String| StateScope::is_shared(name);
        let set = after
            .iter()
            .filter(|(name, value)| shared(name) && before.get(*name) != Some(value))
            .map(|(name, value)| Self { name: name.clone(), value: Some(value.clone()) });
        let gone = before
            .keys()
            .filter(|name| shared(name) && !after.contains_key(*name))
            .map(|name| Self { name: name.clone(), value: None });
        set.chain(gone).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_name_says_its_scope() {
        let cases = [
            ("topic", StateScope::Run, "topic"),
            ("session:topic", StateScope::Session, "topic"),
            ("user:a:b", StateScope::User, "a:b"),
            ("app:", StateScope::App, ""),
            ("users:x", StateScope::Run, "users:x"),
            ("run:x", StateScope::Run, "run:x"),
            ("user", StateScope::Run, "user"),
        ];
        for (name, scope, inner) in cases {
            assert_eq!(StateScope::split(name), (scope, inner), "{name}");
            assert_eq!(scope.name(inner), name);
            assert_eq!(StateScope::parse(scope.as_str()), Some(scope));
        }
        assert_eq!(StateScope::parse("world"), None);
    }

    #[test]
    fn only_what_is_shared_and_differs_is_a_change() {
        let before = map(json!({"a": 1, "user:b": 1, "user:c": 1, "app:d": 1}));
        let after = map(json!({"a": 2, "user:b": 1, "user:c": 2, "session:e": [1]}));
        let changes = StateChange::between(&before, &after);
        let told: Vec<_> =
            changes.iter().map(|change| (change.name.as_str(), change.value.clone())).collect();
        assert_eq!(
            told,
            [("user:c", Some(json!(2))), ("session:e", Some(json!([1]))), ("app:d", None)]
        );
        assert_eq!(StateChange::between(&after, &after), []);
    }
}
