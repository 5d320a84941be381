//! Texts of any size: small texts stay in their row, large texts become blobs.

use crate::table::state::blob::{self, CompressedBlob};
use crate::{StoreError, Tx};

/// Maximum length of a text that is stored in its row, in bytes.
pub const INLINE_BYTES_MAX: usize = 8 << 10;

/// A text prepared for storage. Prepare it outside of a transaction, because large texts are compressed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredText {
    /// Small enough for its row.
    Inline(String),
    /// Compressed, for the table `blob`.
    Blob(CompressedBlob),
}

impl StoredText {
    /// Prepares the text.
    pub fn new(text: impl Into<String>) -> Result<Self, StoreError> {
        let text = text.into();
        if text.len() <= INLINE_BYTES_MAX {
            return Ok(Self::Inline(text));
        }
        CompressedBlob::new(text.as_bytes()).map(Self::Blob)
    }

    /// Stores a large text as a blob and returns the columns `body` and `blob` of the row, of which one is null.
    pub fn store(&self, tx: &mut Tx<'_>) -> Result<(Option<String>, Option<String>), StoreError> {
        let (body, blob) = self.columns(tx)?;
        Ok((body.map(str::to_owned), blob.map(str::to_owned)))
    }

    /// Stores a large text as a blob and returns the columns `body` and `blob` of the row, borrowed from this text.
    pub(crate) fn columns(
        &self,
        tx: &mut Tx<'_>,
    ) -> Result<(Option<&str>, Option<&str>), StoreError> {
        match self {
            Self::Inline(text) => Ok((Some(text), None)),
            Self::Blob(packed) => {
                blob::put(tx, packed)?;
                Ok((None, Some(packed.hash())))
            }
        }
    }
}

/// Loads the text behind the columns `body` and `blob` of a row. `None` if both are null.
pub fn load_text(
    tx: &mut Tx<'_>,
    body: Option<String>,
    blob: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let Some(hash) = blob else { return Ok(body) };
    let damaged = |what: &str| StoreError::Corrupt { detail: format!("blob {hash} {what}") };
    let plain = blob::get(tx, hash)?.ok_or_else(|| damaged("is missing"))?;
    let text =
        String::from_utf8(plain).map_err(|error| damaged(&format!("is not text: {error}")))?;
    Ok(Some(text))
}
