//! Prefixed, time-ordered ids.
//!
//! An id is a UUIDv7 with a type: `run_01jd…` in text, 16 bytes in memory.
//! Parsing is strict (right prefix, right length, canonical digits), so an id of one kind can never be used as another.

pub mod name;

use crate::text::first_chars;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Crockford's base 32 in lower case: no `i`, `l`, `o`, `u`, and text order equals byte order.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Number of base 32 digits that hold 128 bits.
const TEXT_LEN: usize = 26;

/// What all ids have in common; implemented by `id_type!` only.
pub trait TypedId: Copy + Sized {
    /// The text before the underscore.
    const PREFIX: &'static str;
    /// Wraps a UUID that was made for this kind.
    fn from_uuid(uuid: Uuid) -> Self;
    /// The bare UUID, for storage in a column.
    fn uuid(self) -> Uuid;
}

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The prefix is missing or belongs to another kind.
    #[error("`{text}` is not a {prefix} id: it must start with `{prefix}_`")]
    Prefix {
        /// The text as it was given.
        text: String,
        /// The prefix that was wanted.
        prefix: &'static str,
    },
    /// The part after the prefix is not 26 canonical digits.
    #[error(
        "`{text}` is not an id: 26 digits of 0-9 a-z without i, l, o, u must follow the prefix"
    )]
    Digits {
        /// The text as it was given.
        text: String,
    },
}

/// Writes the text of an id.
fn write_id(f: &mut fmt::Formatter<'_>, prefix: &str, uuid: Uuid) -> fmt::Result {
    write!(f, "{prefix}_")?;
    for place in (0..TEXT_LEN).rev() {
        let digit = (uuid.as_u128() >> (5 * place)) & 31;
        f.write_char(char::from(DIGITS[digit as usize]))?;
    }
    Ok(())
}

fn decode(text: &str) -> Option<Uuid> {
    if text.len() != TEXT_LEN || text.as_bytes()[0] > b'7' {
        return None;
    }
    let mut bits: u128 = 0;
    for byte in text.bytes() {
        let value = DIGITS.iter().position(|digit| *digit == byte)?;
        bits = (bits << 5) | value as u128;
    }
    Some(Uuid::from_u128(bits))
}

pub(crate) fn parse_id(prefix: &'static str, text: &str) -> Result<Uuid, IdError> {
    let digits = text
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .ok_or_else(|| IdError::Prefix { text: bounded(text), prefix })?;
    decode(digits).ok_or_else(|| IdError::Digits { text: bounded(text) })
}

/// Error texts never repeat more of a stranger's input than this.
fn bounded(text: &str) -> String {
    first_chars(text, 64).to_owned()
}

/// Defines one kind of id.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl TypedId for $name {
            const PREFIX: &'static str = $prefix;
            fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }
            fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_id(f, $prefix, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_id($prefix, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "pattern": concat!("^", $prefix, "_[0-7][0-9a-hjkmnp-tv-z]{25}$"),
                })
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id_type!(
    /// One life of a task: the unit that streams, suspends and resumes.
    RunId, "run"
);
id_type!(
    /// What was asked for: durable, queued, answered by one run or by several.
    TaskId, "task"
);
id_type!(
    /// A conversation that nobody has named.
    SessionId, "ses"
);
id_type!(
    /// A question to a person: may this exact call run?
    ApprovalId, "appr"
);
id_type!(
    /// A record of who did what.
    AuditId, "aud"
);
id_type!(
    /// A record of what was used.
    MeterId, "met"
);
id_type!(
    /// A message on its way into a task: a follow-up, a steering word, an answer.
    InputId, "inp"
);
id_type!(
    /// An answer on its way out to a channel.
    DeliveryId, "dlv"
);
id_type!(
    /// One stored message.
    MessageId, "msg"
);
id_type!(
    /// A process that carries out runs.
    WorkerId, "wrk"
);
id_type!(
    /// The place where one attempt runs; never used twice.
    ExecutionId, "exe"
);
id_type!(
    /// A key to the run API; what it opens is stored beside it.
    TokenId, "tok"
);
id_type!(
    /// An address that is told what happens in a namespace.
    WebhookId, "whk"
);
id_type!(
    /// One event on its way to such an address.
    WebhookPostId, "whp"
);
id_type!(
    /// Something that is remembered about somebody.
    MemoryId, "mem"
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;

    #[test]
    fn text_form_round_trips_and_sorts_by_time() {
        let env = Env::simulated(7);
        let first: RunId = env.id();
        env.advance(std::time::Duration::from_millis(2));
        let second: RunId = env.id();
        assert_eq!(first.to_string().parse::<RunId>().unwrap(), first);
        assert!(first.to_string().starts_with("run_"));
        assert_eq!(first.to_string().len(), 4 + TEXT_LEN);
        assert!(first < second && first.to_string() < second.to_string());
        assert_eq!(first.uuid().get_version_num(), 7);
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        let id: RunId = Env::simulated(1).id();
        let error = id.to_string().replace("run_", "task_").parse::<RunId>().unwrap_err();
        assert!(error.to_string().contains("must start with `run_`"), "{error}");
    }

    #[test]
    fn wrong_digits_are_refused() {
        for text in
            ["run_", "run_u0000000000000000000000000", "run_8zzzzzzzzzzzzzzzzzzzzzzzzz", "run_0"]
        {
            assert!(matches!(text.parse::<RunId>(), Err(IdError::Digits { .. })), "{text}");
        }
    }
}
