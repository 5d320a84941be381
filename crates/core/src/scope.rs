//! How long a value of a run's state lives and who sees it: its name says so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Bytes of a value that outlives its run, written as JSON.
pub const SHARED_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the name of a value that outlives its run, its scope included.
pub const SHARED_NAME_BYTES_MAX: usize = 256;

/// Where a value of the state belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateScope {
    /// To the run alone: a name without a prefix.
    Run,
    /// To the conversation: `session:topic`.
    Session,
    /// To the user, in all conversations: `user:language`.
    User,
    /// To everybody: `app:notice`.
    App,
}

impl StateScope {
    /// The scopes that outlive a run.
    pub const SHARED: [Self; 3] = [Self::Session, Self::User, Self::App];

    /// The scope that a name is in, and the name inside it.
    pub fn split(name: &str) -> (Self, &str) {
        let shared = Self::SHARED.into_iter().find_map(|scope| {
            let inner = name.strip_prefix(scope.as_str())?.strip_prefix(':')?;
            Some((scope, inner))
        });
        shared.unwrap_or((Self::Run, name))
    }

    /// True for a name whose value outlives the run.
    pub fn is_shared(name: &str) -> bool {
        Self::split(name).0 != Self::Run
    }

    /// The name of a value of this scope, as a run writes it.
    pub fn name(self, inner: &str) -> String {
        match self {
            Self::Run => inner.to_owned(),
            shared => format!("{}:{inner}", shared.as_str()),
        }
    }

    /// The stable word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::User => "user",
            Self::App => "app",
        }
    }

    /// The scope of a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Run, Self::Session, Self::User, Self::App]
            .into_iter()
            .find(|scope| scope.as_str() == word)
    }
}

/// A value that outlives its run and was set or taken away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateChange {
    /// Its name, with the scope.
    pub name: String,
    /// The value; nothing if it was taken away.
    #[serde(default)]
    pub value: Option<Value>,
}

impl StateChange {
    /// What has to be set and taken away so that the shared values of `before` become those of `after`.
    ///
    /// Names are told one by one, so that two runs that change different ones both get what they want.
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
            assert_eq!(StateScope::from_word(scope.as_str()), Some(scope));
        }
        assert_eq!(StateScope::from_word("world"), None);
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
