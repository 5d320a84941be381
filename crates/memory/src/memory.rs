//! Memories, their owners, and the messages that they come from.

use std::fmt;

use provost_core::{MemoryId, Message, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::MemoryError;

/// Maximum length of an owner's name, in bytes.
pub const OWNER_BYTES_MAX: usize = 256;
/// Maximum length of a memory's text, in bytes.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of a memory's metadata as JSON, in bytes.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of source messages of a memory.
pub const SOURCES_MAX: usize = 256;
/// Maximum length of a session id and of a message digest in a source, in bytes.
pub(crate) const SOURCE_BYTES_MAX: usize = 512;
/// Number of hexadecimal digits in the digest of a message.
const DIGEST_DIGITS: usize = 32;

/// Owner of memories: a person, a team or a tenant. A call for one owner never reads or changes the memories of
/// another.
///
/// A program sets the owner of a run with `.dep(Owner::new("anna")?)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// Creates an owner. The name must not be blank and must have at most [`OWNER_BYTES_MAX`] bytes.
    pub fn new(name: impl Into<String>) -> Result<Self, MemoryError> {
        let name = name.into();
        if name.trim().is_empty() {
            return Err(MemoryError::Invalid("the owner's name is empty".into()));
        }
        if name.len() > OWNER_BYTES_MAX {
            let problem =
                format!("the owner's name has {} bytes, use at most {OWNER_BYTES_MAX}", name.len());
            return Err(MemoryError::Invalid(problem));
        }
        Ok(Self(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Subject of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Category")]
pub enum MemoryCategory {
    /// Likes, dislikes and wishes.
    Preference,
    /// Name, family, home and dates.
    Personal,
    /// Health, diet and allergies.
    Health,
    /// Work, skills and projects.
    Professional,
    /// All other subjects.
    Other,
}

impl MemoryCategory {
    /// All categories.
    pub const ALL: [Self; 5] =
        [Self::Preference, Self::Personal, Self::Health, Self::Professional, Self::Other];

    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preference => "preference",
            Self::Personal => "personal",
            Self::Health => "health",
            Self::Professional => "professional",
            Self::Other => "other",
        }
    }

    /// Returns the category with this name; `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

/// A message from which a memory was extracted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MemorySource {
    /// Id of the session, or of the run if the run had no session.
    pub session: String,
    /// The [`digest`] of the message.
    pub message: String,
}

/// A stored memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Id of the memory.
    pub id: MemoryId,
    /// Owner of the memory.
    pub owner: Owner,
    /// Text of the memory.
    pub text: String,
    /// Subject of the memory; `None` if it is not known.
    pub category: Option<MemoryCategory>,
    /// Values that the program stores with the memory.
    pub metadata: Map<String, Value>,
    /// Messages from which the memory was extracted.
    pub sources: Vec<MemorySource>,
    /// Time at which the memory was first stored.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Time from which the memory is valid.
    pub valid_from: Timestamp,
    /// The newer memory that contradicts this one; `None` for a current memory. A superseded memory remains as
    /// history, but searches do not return it.
    pub superseded_by: Option<MemoryId>,
}

/// A memory to store.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewMemory {
    /// Text of the memory.
    pub text: String,
    /// Subject of the memory; `None` if it is not known.
    pub category: Option<MemoryCategory>,
    /// Values that the program stores with the memory.
    pub metadata: Map<String, Value>,
    /// Messages from which the memory was extracted.
    pub sources: Vec<MemorySource>,
    /// Time from which the memory is valid; `None` for the time at which it is stored.
    pub valid_from: Option<Timestamp>,
}

impl NewMemory {
    /// Creates a memory with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Sets the category.
    #[must_use]
    pub fn category(mut self, category: MemoryCategory) -> Self {
        self.category = Some(category);
        self
    }

    /// Adds a metadata value.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds a source message.
    #[must_use]
    pub fn source(mut self, session: impl Into<String>, message: impl Into<String>) -> Self {
        self.sources.push(MemorySource { session: session.into(), message: message.into() });
        self
    }
}

/// Returns a digest of the role, the time and the text of a message. It identifies messages, which have no ids.
pub fn digest(message: &Message) -> String {
    let mut hasher = Sha256::new();
    hasher.update(format!("{:?} {}\n", message.role, message.created_at.as_millis()));
    for part in message.parts.iter().filter_map(provost_core::ContentPart::as_text) {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    let mut text = String::with_capacity(DIGEST_DIGITS);
    for byte in hasher.finalize().iter().take(DIGEST_DIGITS / 2) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Returns an error if the text is empty or too long.
pub(crate) fn check_text(text: &str) -> Result<(), MemoryError> {
    if text.trim().is_empty() {
        return Err(MemoryError::Invalid("the text of the memory is empty".into()));
    }
    if text.len() > TEXT_BYTES_MAX {
        let problem = format!("the text has {} bytes, use at most {TEXT_BYTES_MAX}", text.len());
        return Err(MemoryError::Invalid(problem));
    }
    Ok(())
}

/// Returns an error if the metadata or the sources are too large.
pub(crate) fn check_details(
    metadata: &Map<String, Value>,
    sources: &[MemorySource],
) -> Result<(), MemoryError> {
    let size = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    if size > METADATA_BYTES_MAX {
        let problem = format!("the metadata has {size} bytes, use at most {METADATA_BYTES_MAX}");
        return Err(MemoryError::Invalid(problem));
    }
    if sources.len() > SOURCES_MAX {
        let problem =
            format!("the memory has {} sources, use at most {SOURCES_MAX}", sources.len());
        return Err(MemoryError::Invalid(problem));
    }
    let is_too_long =
        |source: &MemorySource| source.session.len().max(source.message.len()) > SOURCE_BYTES_MAX;
    if sources.iter().any(is_too_long) {
        let problem = format!("a source has an id of more than {SOURCE_BYTES_MAX} bytes");
        return Err(MemoryError::Invalid(problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_names() {
        assert!(Owner::new(" ").is_err() && Owner::new("x".repeat(257)).is_err());
        assert_eq!(Owner::new("anna").unwrap().as_str(), "anna");
    }

    #[test]
    fn digests_tell_messages_apart() {
        let at = Timestamp::from_millis(5);
        let one = digest(&Message::user("hi").at(at));
        assert_eq!(one, digest(&Message::user("hi").at(at)));
        assert_ne!(one, digest(&Message::user("hi").at(Timestamp::from_millis(6))));
        assert_ne!(one, digest(&Message::assistant("hi").at(at)));
        assert_eq!(one.len(), DIGEST_DIGITS);
    }

    #[test]
    fn categories_have_one_name() {
        for category in MemoryCategory::ALL {
            assert_eq!(serde_json::to_value(category).unwrap(), category.as_str());
            assert_eq!(MemoryCategory::from_name(category.as_str()), Some(category));
        }
    }
}
