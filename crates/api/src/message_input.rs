//! Content of a message: plain text or content parts.

use std::fmt;

use provost_core::ContentPart;
use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, de};

/// Content of a message: plain text, or parts with text, images and documents.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MessageInput {
    /// Plain text.
    Text(String),
    /// Content parts, in order.
    Parts(Vec<ContentPart>),
}

impl Default for MessageInput {
    fn default() -> Self {
        Self::Parts(Vec::new())
    }
}

impl MessageInput {
    /// Converts the message to content parts.
    pub fn into_parts(self) -> Vec<ContentPart> {
        match self {
            Self::Text(text) => vec![ContentPart::text(text)],
            Self::Parts(parts) => parts,
        }
    }
}

/// Implemented by hand, because the derived implementation does not report which part is invalid.
impl<'de> Deserialize<'de> for MessageInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MessageInputVisitor)
    }
}

struct MessageInputVisitor;

impl<'de> Visitor<'de> for MessageInputVisitor {
    type Value = MessageInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MessageInput, E> {
        Ok(MessageInput::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<MessageInput, E> {
        Ok(MessageInput::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<MessageInput, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(parts)).map(MessageInput::Parts)
    }
}

impl<T: Into<String>> From<T> for MessageInput {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}
