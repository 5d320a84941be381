//! The redactor and its registered secrets, which all clones share.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use provost_core::Secret;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::encode::{EncodedSecret, encode_secret};
use crate::index::PatternIndex;
use crate::scan::{Chunk, RedactedSpans, scan};
use crate::stream::{RedactStream, write_redacted};
use crate::{PLACEHOLDER, json};

/// Minimum length of a registered value, in bytes. Shorter values occur by chance.
pub const VALUE_BYTES_MIN: usize = 4;
/// Maximum length of a registered value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of registered values. Beyond it, the values that were registered longest ago are removed.
pub const SECRETS_MAX: usize = 16 * 1024;

/// A value cannot be registered. Such a value must not be used as a secret, because it could not be redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The value is too short.
    #[error(
        "a secret of {len} bytes cannot be distinguished from other text; use at least {VALUE_BYTES_MIN} bytes"
    )]
    TooShort {
        /// Length of the value, in bytes.
        len: usize,
    },
    /// The value is too long.
    #[error("a secret of {len} bytes is too long; use at most {VALUE_BYTES_MAX} bytes")]
    TooLong {
        /// Length of the value, in bytes.
        len: usize,
    },
}

/// Removes secrets from text. Clones share the registered secrets.
#[derive(Clone)]
pub struct Redactor {
    inner: Arc<RedactorInner>,
}

/// The index and the registered secrets, shared by all clones.
struct RedactorInner {
    index: RwLock<Arc<PatternIndex>>,
    registry: Mutex<SecretRegistry>,
}

/// Registered secrets by the hash of their value. The clock counts registrations.
#[derive(Default)]
struct SecretRegistry {
    /// Encodings of each secret, by the hash of its value.
    values: HashMap<[u8; 32], SecretPatterns>,
    /// Number of registrations.
    clock: u64,
}

/// The encodings of one registered secret, and when it was last registered.
struct SecretPatterns {
    patterns: Vec<Arc<EncodedSecret>>,
    last_registered: u64,
}

impl Redactor {
    /// Creates a redactor with token formats and keywords, without registered secrets.
    pub fn new() -> Self {
        let inner = RedactorInner {
            index: RwLock::new(Arc::new(PatternIndex::new())),
            registry: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Adds a value in all its encodings to the secrets that are redacted, also by open streams. If more than
    /// [`SECRETS_MAX`] values are registered, the oldest eighth is no longer redacted.
    ///
    /// Fails if the value is too short or too long.
    pub fn register(&self, value: &Secret<String>) -> Result<(), RegisterError> {
        let value = value.expose();
        let len = value.trim().len();
        if len < VALUE_BYTES_MIN {
            return Err(RegisterError::TooShort { len });
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(RegisterError::TooLong { len: value.len() });
        }
        let mut registry = self.inner.registry.lock();
        registry.clock += 1;
        let last_registered = registry.clock;
        let hash = Sha256::digest(value.as_bytes()).into();
        if let Some(entry) = registry.values.get_mut(&hash) {
            entry.last_registered = last_registered;
            return Ok(());
        }
        let patterns: Vec<Arc<EncodedSecret>> =
            encode_secret(value).into_iter().map(Arc::new).collect();
        self.update_index(|index| {
            patterns.iter().for_each(|form| index.add_secret(Arc::clone(form)))
        });
        registry.values.insert(hash, SecretPatterns { patterns, last_registered });
        if registry.values.len() > SECRETS_MAX {
            self.evict_oldest(&mut registry);
        }
        Ok(())
    }

    /// Returns the text with a placeholder for each secret. Borrows the text if it contains no secret.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Matches begin and end at character boundaries. If a defect violates that, invalid bytes must not escape.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// Returns the bytes with a placeholder for each secret. Borrows them if they contain no secret. The bytes need
    /// not be UTF-8.
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut redacted = RedactedSpans::default();
        scan(&self.index(), Chunk { bytes, base: 0, is_end: true }, 0, &mut redacted);
        if redacted.spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        write_redacted(bytes, 0, &mut redacted, &mut None, &mut out);
        Cow::Owned(out)
    }

    /// Redacts every string of a JSON value, and the values of members such as `password`. Returns true if the value
    /// changed.
    pub fn redact_json(&self, value: &mut Value) -> bool {
        json::redact(self, value)
    }

    /// Returns true if the bytes contain anything that [`Redactor::redact`] would replace.
    pub fn contains_secret(&self, bytes: &[u8]) -> bool {
        let mut redacted = RedactedSpans::default();
        scan(&self.index(), Chunk { bytes, base: 0, is_end: true }, 0, &mut redacted);
        !redacted.spans.is_empty()
    }

    /// Creates a redactor for text that arrives in chunks.
    pub fn stream(&self) -> RedactStream {
        RedactStream::new(self.clone())
    }

    /// Returns the current index. Later registrations do not change it.
    pub(crate) fn index(&self) -> Arc<PatternIndex> {
        Arc::clone(&self.inner.index.read())
    }

    /// Changes a copy of the index and publishes it. Concurrent readers keep the previous version.
    fn update_index(&self, change: impl FnOnce(&mut PatternIndex)) {
        let mut index = self.inner.index.write();
        change(Arc::make_mut(&mut index));
    }

    /// Removes the eighth of the registered secrets whose last registration is oldest, and builds the index again.
    fn evict_oldest(&self, registry: &mut SecretRegistry) {
        let mut ages: Vec<u64> =
            registry.values.values().map(|entry| entry.last_registered).collect();
        ages.sort_unstable();
        let oldest = ages[ages.len() / 8];
        registry.values.retain(|_, entry| entry.last_registered > oldest);
        let mut index = PatternIndex::new();
        for form in registry.values.values().flat_map(|entry| &entry.patterns) {
            index.add_secret(Arc::clone(form));
        }
        self.update_index(|current| *current = index);
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({PLACEHOLDER})")
    }
}
