//! Arguments of tool calls, and text that is borrowed from an event.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// Text of a JSON string, borrowed from the input unless it contains escapes.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Arguments of a tool call. Arguments that are not a JSON object are wrapped in one, because every vendor requires an
/// object.
#[derive(Debug)]
pub(crate) enum Arguments<'a> {
    /// A JSON object, exactly as the model wrote it.
    Object(&'a RawValue),
    /// No arguments.
    Empty,
    /// Text that is not a JSON object.
    NotAnObject(&'a str),
}

/// Object around arguments that are not an object.
#[derive(Serialize)]
struct RawArguments<'a> {
    _raw: &'a str,
}

impl<'a> Arguments<'a> {
    /// Parses the arguments of a tool call. Empty text means no arguments.
    pub(crate) fn parse(text: &'a str) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Self::Empty;
        }
        match serde_json::from_str::<&RawValue>(trimmed) {
            Ok(raw) if trimmed.starts_with('{') => Self::Object(raw),
            _ => Self::NotAnObject(text),
        }
    }

    /// Returns the arguments as text, for vendors that expect a string.
    pub(crate) fn to_text(&self) -> Cow<'a, str> {
        match self {
            Self::Object(raw) => Cow::Borrowed(raw.get()),
            Self::Empty => Cow::Borrowed("{}"),
            Self::NotAnObject(text) => {
                let wrapped = serde_json::to_string(&RawArguments { _raw: text });
                Cow::Owned(wrapped.unwrap_or_else(|_| "{}".to_owned()))
            }
        }
    }
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(raw) => raw.serialize(serializer),
            Self::Empty => serializer.collect_map(std::iter::empty::<((), ())>()),
            Self::NotAnObject(text) => RawArguments { _raw: text }.serialize(serializer),
        }
    }
}
