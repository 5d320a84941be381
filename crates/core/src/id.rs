//! Prefixed, time-ordered ids.
//!
//! An id is a typed UUIDv7: `run_01jd…` as text, 16 bytes in memory. Parsing requires the right prefix, the right
//! length and canonical digits, so an id of one type never passes as another.

pub mod name;

use crate::text::first_chars;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// Alphabet of Crockford's base 32 in lower case. It has no `i`, `l`, `o` or `u`, and its text order equals the byte
/// order.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Number of base 32 digits that encode 128 bits.
const TEXT_LEN: usize = 26;

/// Common interface of all ids. Only `id_type!` implements it.
pub trait TypedId: Copy + Sized {
    /// Prefix of the text form, without the underscore.
    const PREFIX: &'static str;
    /// Wraps a UUID that was generated for this id type.
    fn from_uuid(uuid: Uuid) -> Self;
    /// Returns the UUID, for storage in a column.
    fn uuid(self) -> Uuid;
}

/// Reason why a text is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The prefix is missing or belongs to another id type.
    #[error("`{text}` is not a {prefix} id: it must start with `{prefix}_`")]
    Prefix {
        /// Start of the rejected text.
        text: String,
        /// The expected prefix.
        prefix: &'static str,
    },
    /// The part after the prefix does not consist of 26 canonical digits.
    #[error(
        "`{text}` is not an id: 26 digits of 0-9 a-z without i, l, o, u must follow the prefix"
    )]
    Digits {
        /// Start of the rejected text.
        text: String,
    },
}

/// Returns the text form of an id with a prefix.
fn id_text(prefix: &str, uuid: Uuid) -> String {
    struct IdText<'a>(&'a str, Uuid);
    impl fmt::Display for IdText<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_id(f, self.0, self.1)
        }
    }
    IdText(prefix, uuid).to_string()
}

/// Writes the text form of an id.
fn write_id(f: &mut fmt::Formatter<'_>, prefix: &str, uuid: Uuid) -> fmt::Result {
    write!(f, "{prefix}_")?;
    for place in (0..TEXT_LEN).rev() {
        let digit = (uuid.as_u128() >> (5 * place)) & 31;
        f.write_char(char::from(DIGITS[digit as usize]))?;
    }
    Ok(())
}

/// Decodes the digits of an id. `None` if the length or a digit is wrong.
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

/// Parses the text form of an id. Fails if the prefix or a digit is wrong.
pub(crate) fn parse_id(prefix: &'static str, text: &str) -> Result<Uuid, IdError> {
    let digits = text
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .ok_or_else(|| IdError::Prefix { text: bounded(text), prefix })?;
    decode(digits).ok_or_else(|| IdError::Digits { text: bounded(text) })
}

/// Truncates untrusted input for an error message.
fn bounded(text: &str) -> String {
    first_chars(text, 64).to_owned()
}

/// Defines one id type. `as "…"` sets another name of its JSON schema.
macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident $(as $schema:literal)?, $prefix:literal) => {
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
                [$( $schema, )? stringify!($name)][0].into()
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
    /// Id of a run: one execution of an agent, which can be streamed, suspended and resumed.
    RunId, "run"
);
id_type!(
    /// Id of a task: a durable request that one or more runs answer.
    TaskId, "task"
);
id_type!(
    /// Generated id of a session without a name.
    SessionId, "ses"
);
id_type!(
    /// Id of an approval request.
    ApprovalId, "appr"
);
id_type!(
    /// Id of an audit record.
    AuditId, "aud"
);
id_type!(
    /// Id of a usage record.
    UsageRecordId as "MeterId", "met"
);
id_type!(
    /// Id of an input: a message for an existing task.
    InputId, "inp"
);
id_type!(
    /// Id of a delivery: a response on its way to a channel.
    DeliveryId, "dlv"
);
id_type!(
    /// Id of a stored message.
    MessageId, "msg"
);
id_type!(
    /// Id of a worker: a process that executes runs.
    WorkerId, "wrk"
);
id_type!(
    /// Id of the environment in which one attempt executes. It is never reused.
    ExecutionId, "exe"
);
id_type!(
    /// Id of an API token. The permissions of the token are stored separately.
    TokenId, "tok"
);
id_type!(
    /// Id of a webhook: a URL that receives the events of a namespace.
    WebhookId, "whk"
);
id_type!(
    /// Id of the delivery of one event to one webhook.
    WebhookDeliveryId as "WebhookPostId", "whp"
);
id_type!(
    /// Id of a memory: a stored fact.
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
