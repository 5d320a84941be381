//! What is remembered, about whom, and where it came from.

use std::fmt;

use provost_core::{MemoryId, Message, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::MemoryError;

/// Bytes of an owner's name.
pub const OWNER_BYTES_MAX: usize = 256;
/// Bytes of one memory's text.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Bytes of one memory's metadata as JSON.
pub const METADATA_BYTES_MAX: usize = 16 * 1024;
/// Messages one memory can come from.
pub const SOURCES_MAX: usize = 256;
/// Bytes of the names in a source.
pub(crate) const SOURCE_BYTES_MAX: usize = 512;
/// Hexadecimal digits of a message's digest.
const DIGEST_DIGITS: usize = 32;

/// Whose memories: a person, a team, a tenant. Nothing is ever found or changed across owners.
///
/// Given to a run as `.dep(Owner::new("anna")?)` it says whom the run is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Owner(String);

impl Owner {
    /// An owner of this name: not blank, at most [`OWNER_BYTES_MAX`] bytes.
    pub fn new(name: impl Into<String>) -> Result<Self, MemoryError> {
        let name = name.into();
        if name.trim().is_empty() {
            return Err(MemoryError::Invalid("an owner needs a name: it is empty".into()));
        }
        if name.len() > OWNER_BYTES_MAX {
            let problem =
                format!("the owner's name has {} bytes, use at most {OWNER_BYTES_MAX}", name.len());
            return Err(MemoryError::Invalid(problem));
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a memory is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// What somebody likes or wants.
    Preference,
    /// Name, family, home, dates.
    Personal,
    /// Health, diet, allergies.
    Health,
    /// Work, skills, projects.
    Professional,
    /// Anything else.
    Other,
}

impl Category {
    /// Every category.
    pub const ALL: [Self; 5] =
        [Self::Preference, Self::Personal, Self::Health, Self::Professional, Self::Other];

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preference => "preference",
            Self::Personal => "personal",
            Self::Health => "health",
            Self::Professional => "professional",
            Self::Other => "other",
        }
    }

    /// The category of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.as_str() == name)
    }
}

/// A message that something is known from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The session, or the run if there was no session.
    pub session: String,
    /// The message's [`digest`].
    pub message: String,
}

/// One thing that is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// Its id.
    pub id: MemoryId,
    /// Whose it is.
    pub owner: Owner,
    /// What is remembered.
    pub text: String,
    /// What it is about.
    pub category: Option<Category>,
    /// What the program wants to keep with it.
    pub metadata: Map<String, Value>,
    /// The messages it came from.
    pub sources: Vec<Source>,
    /// When it was first stored.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Since when it holds.
    pub valid_from: Timestamp,
    /// What contradicts it since; it is kept as history and not found by searches.
    pub superseded_by: Option<MemoryId>,
}

/// Something to remember.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewMemory {
    /// What is remembered.
    pub text: String,
    /// What it is about.
    pub category: Option<Category>,
    /// What the program wants to keep with it.
    pub metadata: Map<String, Value>,
    /// The messages it comes from.
    pub sources: Vec<Source>,
    /// Since when it holds; by default since now.
    pub valid_from: Option<Timestamp>,
}

impl NewMemory {
    /// A text to remember.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Says what it is about.
    #[must_use]
    pub fn category(mut self, category: Category) -> Self {
        self.category = Some(category);
        self
    }

    /// Adds a value of the program's own.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Adds a message it comes from.
    #[must_use]
    pub fn source(mut self, session: impl Into<String>, message: impl Into<String>) -> Self {
        self.sources.push(Source { session: session.into(), message: message.into() });
        self
    }
}

/// A name for a message that follows from what was said, by whom and when: messages have no ids of their own.
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

/// Refuses what no store takes.
pub(crate) fn check_text(text: &str) -> Result<(), MemoryError> {
    if text.trim().is_empty() {
        return Err(MemoryError::Invalid("there is nothing to remember: the text is empty".into()));
    }
    if text.len() > TEXT_BYTES_MAX {
        let problem = format!("the text has {} bytes, use at most {TEXT_BYTES_MAX}", text.len());
        return Err(MemoryError::Invalid(problem));
    }
    Ok(())
}

/// Refuses metadata and sources that no store takes.
pub(crate) fn check_details(
    metadata: &Map<String, Value>,
    sources: &[Source],
) -> Result<(), MemoryError> {
    let size = serde_json::to_string(metadata).map_or(usize::MAX, |text| text.len());
    if size > METADATA_BYTES_MAX {
        let problem = format!("the metadata has {size} bytes, use at most {METADATA_BYTES_MAX}");
        return Err(MemoryError::Invalid(problem));
    }
    if sources.len() > SOURCES_MAX {
        let problem =
            format!("{} sources were given, a memory has at most {SOURCES_MAX}", sources.len());
        return Err(MemoryError::Invalid(problem));
    }
    let too_long =
        |source: &Source| source.session.len().max(source.message.len()) > SOURCE_BYTES_MAX;
    if sources.iter().any(too_long) {
        let problem = format!("a source names something of more than {SOURCE_BYTES_MAX} bytes");
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
        for category in Category::ALL {
            assert_eq!(serde_json::to_value(category).unwrap(), category.as_str());
            assert_eq!(Category::named(category.as_str()), Some(category));
        }
    }
}
