//! What is said: plain text, or parts.

use std::fmt;

use provost_core::ContentPart;
use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, de};

/// A message: plain text, or parts with pictures and documents.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Said {
    /// Plain text.
    Text(String),
    /// Parts, in order.
    Parts(Vec<ContentPart>),
}

impl Default for Said {
    fn default() -> Self {
        Self::Parts(Vec::new())
    }
}

impl Said {
    /// As parts.
    pub fn into_parts(self) -> Vec<ContentPart> {
        match self {
            Self::Text(text) => vec![ContentPart::text(text)],
            Self::Parts(parts) => parts,
        }
    }
}

/// Read by hand, so that an error names the part that is wrong.
impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SaidVisitor)
    }
}

struct SaidVisitor;

impl<'de> Visitor<'de> for SaidVisitor {
    type Value = Said;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of parts")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Said, E> {
        Ok(Said::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Said, E> {
        Ok(Said::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<Said, A::Error> {
        Vec::deserialize(de::value::SeqAccessDeserializer::new(parts)).map(Said::Parts)
    }
}

impl<T: Into<String>> From<T> for Said {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}
