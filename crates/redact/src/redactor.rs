//! The redactor: what it was taught, shared by everybody who holds a clone.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use provost_core::Secret;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::encode::{Form, forms};
use crate::index::Index;
use crate::scan::{Hidden, Part, scan};
use crate::stream::{RedactStream, give};
use crate::{MARK, json};

/// Values shorter than this cannot be learned: they stand everywhere by chance.
pub const VALUE_BYTES_MIN: usize = 4;
/// Values longer than this cannot be learned.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// Values that are known at once. Beyond it the ones that were taught longest ago are forgotten: they are no longer used.
pub const LEARNED_MAX: usize = 16 * 1024;

/// Why a value cannot be learned. Nobody must use such a value: it could not be kept out of what is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unlearnable {
    /// It is too short.
    #[error(
        "a secret of {len} bytes cannot be told from other text; use one of {VALUE_BYTES_MIN} bytes or more"
    )]
    Short {
        /// Its bytes.
        len: usize,
    },
    /// It is too long.
    #[error("a secret of {len} bytes is too long; use one of {VALUE_BYTES_MAX} bytes or less")]
    Long {
        /// Its bytes.
        len: usize,
    },
}

/// Keeps secrets out of text. Clones share what was learned.
#[derive(Clone)]
pub struct Redactor {
    shared: Arc<Shared>,
}

struct Shared {
    index: RwLock<Arc<Index>>,
    learned: Mutex<Learned>,
}

#[derive(Default)]
struct Learned {
    /// By the hash of the value.
    values: HashMap<[u8; 32], Known>,
    /// How often something was taught.
    clock: u64,
}

struct Known {
    forms: Vec<Arc<Form>>,
    taught: u64,
}

impl Redactor {
    /// One that knows shapes and labels, and no values yet.
    pub fn new() -> Self {
        let shared =
            Shared { index: RwLock::new(Arc::new(Index::new())), learned: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Teaches it a value in all its forms. It is known when this returns, to streams that are under way as well.
    pub fn learn(&self, value: &Secret<String>) -> Result<(), Unlearnable> {
        let value = value.expose();
        let len = value.trim().len();
        if len < VALUE_BYTES_MIN {
            return Err(Unlearnable::Short { len });
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Unlearnable::Long { len: value.len() });
        }
        let mut learned = self.shared.learned.lock().unwrap_or_else(PoisonError::into_inner);
        learned.clock += 1;
        let taught = learned.clock;
        let hash = Sha256::digest(value.as_bytes()).into();
        if let Some(known) = learned.values.get_mut(&hash) {
            known.taught = taught;
            return Ok(());
        }
        let forms: Vec<Arc<Form>> = forms(value).into_iter().map(Arc::new).collect();
        self.change(|index| forms.iter().for_each(|form| index.add_form(Arc::clone(form))));
        learned.values.insert(hash, Known { forms, taught });
        if learned.values.len() > LEARNED_MAX {
            self.forget_oldest(&mut learned);
        }
        Ok(())
    }

    /// The text with a mark in the place of each secret. Without one the text itself comes back.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // Matches begin and end at whole characters; a text that they cut would be a defect, and must not get out.
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            ),
        }
    }

    /// The same for bytes of any sort.
    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut hidden = Hidden::default();
        scan(&self.index(), Part { bytes, base: 0, is_end: true }, 0, &mut hidden);
        if hidden.spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        give(bytes, 0, &mut hidden, &mut None, &mut out);
        Cow::Owned(out)
    }

    /// Redacts every text in a JSON value; what stands under a name such as `password` as well. True if it changed something.
    pub fn redact_json(&self, value: &mut Value) -> bool {
        json::redact(self, value)
    }

    /// Whether there is a secret in the bytes.
    pub fn finds(&self, bytes: &[u8]) -> bool {
        let mut hidden = Hidden::default();
        scan(&self.index(), Part { bytes, base: 0, is_end: true }, 0, &mut hidden);
        !hidden.spans.is_empty()
    }

    /// A redactor for text that comes in pieces.
    pub fn stream(&self) -> RedactStream {
        RedactStream::new(self.clone())
    }

    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.shared.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Those who are reading go on with what they have.
    fn change(&self, change: impl FnOnce(&mut Index)) {
        let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut index));
    }

    fn forget_oldest(&self, learned: &mut Learned) {
        let mut ages: Vec<u64> = learned.values.values().map(|known| known.taught).collect();
        ages.sort_unstable();
        let oldest = ages[ages.len() / 8];
        learned.values.retain(|_, known| known.taught > oldest);
        let mut index = Index::new();
        for form in learned.values.values().flat_map(|known| &known.forms) {
            index.add_form(Arc::clone(form));
        }
        self.change(|known| *known = index);
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({MARK})")
    }
}
