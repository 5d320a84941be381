//! Texts of any size: small ones stay in their row, large ones become blobs.

use crate::table::state::blob::{self, Packed};
use crate::{StoreError, Tx};

/// The largest text that is stored in the row itself.
pub const INLINE_BYTES_MAX: usize = 8 << 10;

/// A text made ready for storing, which is better done outside of a transaction: large ones are packed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Small enough for its row.
    Inline(String),
    /// Packed, for the table of blobs.
    Blob(Packed),
}

impl Body {
    /// Makes the text ready.
    pub fn new(text: impl Into<String>) -> Result<Self, StoreError> {
        let text = text.into();
        if text.len() <= INLINE_BYTES_MAX {
            return Ok(Self::Inline(text));
        }
        Packed::new(text.as_bytes()).map(Self::Blob)
    }

    /// Stores what belongs into the table of blobs, and returns the columns `body` and `blob` of the row.
    pub fn store(&self, tx: &mut Tx<'_>) -> Result<(Option<String>, Option<String>), StoreError> {
        let (body, blob) = self.columns(tx)?;
        Ok((body.map(str::to_owned), blob.map(str::to_owned)))
    }

    /// Like [`Body::store`], with columns that are not copied.
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

/// The text that the columns `body` and `blob` of a row stand for; nothing if both are empty.
pub fn load_body(
    tx: &mut Tx<'_>,
    body: Option<String>,
    blob: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let Some(hash) = blob else { return Ok(body) };
    let damaged = |what: &str| StoreError::Damaged { detail: format!("blob {hash} {what}") };
    let plain = blob::get(tx, hash)?.ok_or_else(|| damaged("is missing"))?;
    let text =
        String::from_utf8(plain).map_err(|error| damaged(&format!("is not text: {error}")))?;
    Ok(Some(text))
}
