//! Large bodies, stored once under the hash of what they hold.

use provost_core::Timestamp;
use sha2::{Digest, Sha256};

use crate::error::Rule;
use crate::{StoreError, Tx, params};

/// The largest blob.
pub const BLOB_BYTES_MAX: usize = 256 << 20;

/// The compression level: higher ones cost more time than they save in bytes.
const LEVEL: i32 = 3;

/// A blob that is stored again is made young again if it is older than this, so that a sweep cannot meet it.
const TOUCH_AFTER_MS: i64 = 60 * 60 * 1000;

table! {
    /// One blob as it is stored.
    BlobRow in "blob" {
        /// SHA-256 of the plain bytes, in hex.
        hash: String,
        /// How many plain bytes it holds.
        size: u64,
        /// How it is packed: `raw` or `zstd`.
        encoding: String,
        /// The packed bytes.
        data: Vec<u8>,
        /// When it was last stored.
        created: Timestamp,
    }
}

/// Bytes made ready for storing: hashed and packed, which is better done outside of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    hash: String,
    size: u64,
    encoding: &'static str,
    data: Vec<u8>,
}

impl Packed {
    /// Hashes and packs the bytes.
    pub fn new(plain: &[u8]) -> Result<Self, StoreError> {
        if plain.len() > BLOB_BYTES_MAX {
            let detail = format!("a body of {} bytes; the limit is {BLOB_BYTES_MAX}", plain.len());
            return Err(StoreError::Constraint { rule: Rule::Check, detail });
        }
        let packed = zstd::bulk::compress(plain, LEVEL)
            .map_err(|error| StoreError::bug(format!("packing a body: {error}")))?;
        let (encoding, data) =
            if packed.len() < plain.len() { ("zstd", packed) } else { ("raw", plain.to_vec()) };
        Ok(Self { hash: hash(plain), size: plain.len() as u64, encoding, data })
    }

    /// The hash under which it is stored.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// Stores the bytes unless they are there already.
pub fn put(tx: &mut Tx<'_>, packed: &Packed) -> Result<(), StoreError> {
    let Packed { hash, size, encoding, data } = packed;
    tx.execute(
        "INSERT INTO blob (hash, size, encoding, data, created) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (hash) DO UPDATE SET created = excluded.created WHERE blob.created < excluded.created - ?6",
        params![hash, size, encoding, data, tx.now(), TOUCH_AFTER_MS],
    )
    .map(drop)
}

/// The plain bytes stored under the hash.
pub fn get(tx: &mut Tx<'_>, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let row: Option<BlobRow> = tx.optional(&BlobRow::select("WHERE hash = ?1"), params![hash])?;
    row.map(|row| unpack(&row)).transpose()
}

/// Removes up to `limit` blobs that nothing refers to and that were last stored before `before`.
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

/// Unpacks a blob and makes sure that it is what its hash says.
pub(crate) fn unpack(row: &BlobRow) -> Result<Vec<u8>, StoreError> {
    let damaged =
        |what: String| StoreError::Damaged { detail: format!("blob {}: {what}", row.hash) };
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

fn hash(plain: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = Sha256::digest(plain).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| char::from(DIGITS[usize::from(nibble)])).collect()
}
