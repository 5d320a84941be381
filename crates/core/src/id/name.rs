//! Names that users choose for namespaces and sessions.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RunId, SessionId, TypedId, id_text};
use crate::lifecycle::RequestError;
use crate::lifecycle::error::quoted;
use crate::usage::limits::{NAMESPACE_CHARS_MAX, SESSION_CHARS_MAX};

/// Defines a name type whose text must pass `$check`.
macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $path:literal, $check:expr, $fix:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $name(String);

        impl $name {
            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = RequestError;
            fn from_str(text: &str) -> Result<Self, RequestError> {
                if $check(text) {
                    return Ok(Self(text.to_owned()));
                }
                let problem = format!("`{}` cannot be used", quoted(text));
                Err(RequestError::invalid($path, problem, $fix))
            }
        }

        impl TryFrom<String> for $name {
            type Error = RequestError;
            fn try_from(text: String) -> Result<Self, RequestError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// Tenancy boundary. The data of a tenant belongs to one namespace, directly or through its run, and a query of one
    /// namespace returns no data of another.
    Namespace,
    "namespace",
    is_namespace,
    format!("use 1 to {NAMESPACE_CHARS_MAX} of a-z, 0-9 and -, with a letter or digit at both ends")
);
name_type!(
    /// Name of a session, unique in its namespace. A user or a channel chooses it.
    SessionName,
    "session_id",
    is_session_name,
    format!("use 1 to {SESSION_CHARS_MAX} visible ASCII characters, no spaces")
);

/// Reason for which a session belongs to a run. Selects the prefix of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunSession {
    /// The run is a child that answers once.
    Child,
    /// The run is the first one of a conversation that its parent can continue.
    Conversation,
    /// The session is a copy up to the fork point of the run.
    Fork,
}

impl SessionName {
    /// Returns the name of a session that belongs to a run. It has the digits of the run's id.
    pub fn of_run(reason: RunSession, run: RunId) -> Self {
        let prefix = match reason {
            RunSession::Child => SessionId::PREFIX,
            RunSession::Conversation => "talk",
            RunSession::Fork => "fork",
        };
        Self(id_text(prefix, run.uuid()))
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

/// Returns true for a valid namespace.
fn is_namespace(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAMESPACE_CHARS_MAX).contains(&text.len())
        && text.bytes().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns true for a valid session name.
fn is_session_name(text: &str) -> bool {
    (1..=SESSION_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;

    #[test]
    fn a_namespace_is_a_short_lower_case_label() {
        assert_eq!(Namespace::default().as_str(), "default");
        for good in ["a", "team-7", &"x".repeat(63)] {
            assert_eq!(good.parse::<Namespace>().unwrap().as_str(), good);
        }
        for bad in ["", "Team", "a_b", "-a", "a-", "ä", "a b", &"x".repeat(64)] {
            let error = bad.parse::<Namespace>().unwrap_err();
            assert_eq!(error.code(), "invalid", "{bad}");
            assert!(error.to_string().starts_with("namespace: "), "{error}");
        }
    }

    #[test]
    fn a_session_is_named_by_visible_characters() {
        for good in ["main", "agent:lead:telegram:group:-100", "a@b.c/+1#2"] {
            assert_eq!(good.parse::<SessionName>().unwrap().to_string(), good);
        }
        for bad in ["", "a b", "a\n", "é", &"x".repeat(201)] {
            assert!(bad.parse::<SessionName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_session_of_a_run_has_the_digits_of_its_id() {
        let run: RunId = Env::simulated(1).id();
        let text = run.to_string();
        let digits = text.strip_prefix("run_").unwrap();
        for (reason, prefix) in [
            (RunSession::Child, "ses"),
            (RunSession::Conversation, "talk"),
            (RunSession::Fork, "fork"),
        ] {
            let name = SessionName::of_run(reason, run);
            assert_eq!(name.as_str(), format!("{prefix}_{digits}"));
            assert_eq!(name.as_str().parse(), Ok(name.clone()));
        }
    }

    #[test]
    fn names_are_checked_when_they_are_read() {
        assert_eq!(serde_json::from_str::<Namespace>("\"a-1\"").unwrap().as_str(), "a-1");
        let error = serde_json::from_str::<Namespace>("\"A\"").unwrap_err().to_string();
        assert!(error.contains("`A` cannot be used; use 1 to 63 of a-z"), "{error}");
        assert!(serde_json::from_str::<SessionName>("\"\"").is_err());
    }

    #[test]
    fn a_long_bad_name_is_not_repeated_in_full() {
        let error = "X".repeat(100_000).parse::<SessionName>().unwrap_err();
        assert!(error.to_string().len() < 300);
    }
}
