//! Large texts and other bytes, stored once under the hash of their content.

use provost_core::Timestamp;
use sha2::{Digest, Sha256};

use crate::error::ConstraintKind;
use crate::{StoreError, Tx, params};

/// Maximum size of a blob before compression, in bytes.
pub const BLOB_BYTES_MAX: usize = 256 << 20;

/// Compression level. Higher levels cost more time than they save in size.
const LEVEL: i32 = 3;

/// Age above which storing an existing blob renews its time of creation, so that garbage collection does not remove
/// it in the meantime.
const TOUCH_AFTER_MS: i64 = 60 * 60 * 1000;

table! {
    /// A stored blob.
    BlobRow in "blob" {
        /// SHA-256 of the uncompressed bytes, in hex.
        hash: String,
        /// Number of uncompressed bytes.
        size: u64,
        /// Encoding of the data: `raw` or `zstd`.
        encoding: String,
        /// The encoded bytes.
        data: Vec<u8>,
        /// Time at which the blob was stored, renewed at most once an hour.
        created: Timestamp,
    }
}

/// Hashed and compressed bytes, ready for storage. Compress outside of a transaction, because it takes time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedBlob {
    hash: String,
    size: u64,
    encoding: &'static str,
    data: Vec<u8>,
}

impl CompressedBlob {
    /// Hashes and compresses the bytes. Fails if they exceed [`BLOB_BYTES_MAX`].
    pub fn new(plain: &[u8]) -> Result<Self, StoreError> {
        if plain.len() > BLOB_BYTES_MAX {
            let detail = format!("a body of {} bytes; the limit is {BLOB_BYTES_MAX}", plain.len());
            return Err(StoreError::Constraint { rule: ConstraintKind::Check, detail });
        }
        let packed = zstd::bulk::compress(plain, LEVEL)
            .map_err(|error| StoreError::bug(format!("packing a body: {error}")))?;
        let (encoding, data) =
            if packed.len() < plain.len() { ("zstd", packed) } else { ("raw", plain.to_vec()) };
        Ok(Self { hash: hash(plain), size: plain.len() as u64, encoding, data })
    }

    /// Returns the hash under which the blob is stored.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// Stores the blob unless it exists. Renews the time of an old one, so that [`sweep`] keeps it.
pub fn put(tx: &mut Tx<'_>, packed: &CompressedBlob) -> Result<(), StoreError> {
    let CompressedBlob { hash, size, encoding, data } = packed;
    tx.execute(
        "INSERT INTO blob (hash, size, encoding, data, created) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (hash) DO UPDATE SET created = excluded.created WHERE blob.created < excluded.created - ?6",
        params![hash, size, encoding, data, tx.now(), TOUCH_AFTER_MS],
    )
    .map(drop)
}

/// Returns the uncompressed bytes of a blob. `None` if it does not exist. Fails if the blob is damaged.
pub fn get(tx: &mut Tx<'_>, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let row: Option<BlobRow> =
        tx.fetch_optional(&BlobRow::select("WHERE hash = ?1"), params![hash])?;
    row.map(|row| unpack(&row)).transpose()
}

/// Removes up to `limit` unreferenced blobs that were last stored before `before`, and returns their number.
pub fn sweep(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM blob WHERE hash IN (
           SELECT hash FROM blob b WHERE b.created < ?1
              AND NOT EXISTS (SELECT 1 FROM message WHERE blob = b.hash)
              AND NOT EXISTS (SELECT 1 FROM run_step WHERE blob = b.hash)
              AND NOT EXISTS (SELECT 1 FROM run_snapshot WHERE blob = b.hash)
              AND NOT EXISTS (SELECT 1 FROM run_event WHERE blob = b.hash)
            LIMIT ?2)",
        params![before, limit],
    )
}

/// Decompresses a blob. Fails if its hash differs.
pub(crate) fn unpack(row: &BlobRow) -> Result<Vec<u8>, StoreError> {
    let damaged =
        |what: String| StoreError::Corrupt { detail: format!("blob {}: {what}", row.hash) };
    let size = usize::try_from(row.size).unwrap_or(usize::MAX);
    if size > BLOB_BYTES_MAX {
        return Err(damaged(format!("it claims {size} bytes")));
    }
    let plain = match row.encoding.as_str() {
        "raw" => row.data.clone(),
        "zstd" => zstd::bulk::decompress(&row.data, size)
            .map_err(|error| damaged(format!("unpacking: {error}")))?,
        other => return Err(damaged(format!("it is packed as `{other}`"))),
    };
    if hash(&plain) == row.hash {
        Ok(plain)
    } else {
        Err(damaged("it holds something else".into()))
    }
}

/// Returns the SHA-256 of the bytes in hexadecimal.
fn hash(plain: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = Sha256::digest(plain).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}
