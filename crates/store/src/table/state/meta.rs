//! Facts about the database itself.

use crate::{StoreError, Tx, params};

/// Epochs of one generation are below this; it leaves room for two million restores in exact JSON numbers.
const EPOCHS_PER_GENERATION: u64 = 1 << 32;

table! {
    /// One fact.
    MetaRow in "meta" {
        /// What it is about.
        key: String,
        /// The fact.
        value: String,
    }
}

/// How often the database was restored. Whoever worked on it before belongs to an older generation.
pub fn generation(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    number(tx, "generation")
}

/// Up to this position events may have been removed from the log: whoever reads on from before it may have missed some.
pub fn log_floor(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    number(tx, "log_floor")
}

/// Notes up to which position events were removed.
pub(crate) fn raise_log_floor(tx: &mut Tx<'_>, pos: u64) -> Result<(), StoreError> {
    let sql = "UPDATE meta SET value = ?1 WHERE key = 'log_floor' AND CAST(value AS BIGINT) < ?2";
    tx.execute_fenced(sql, params![pos.to_string(), pos]).map(drop)
}

fn number(tx: &mut Tx<'_>, key: &str) -> Result<u64, StoreError> {
    let value: String = tx.one("SELECT value FROM meta WHERE key = ?1", params![key])?;
    value
        .parse()
        .map_err(|error| StoreError::Damaged { detail: format!("the {key} is `{value}`: {error}") })
}

/// The epoch at which new runs of this generation start: above every epoch of the generations before.
pub fn epoch_floor(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    Ok(generation(tx)?.saturating_mul(EPOCHS_PER_GENERATION))
}

/// Starts a new generation: whatever was leased is lost, and no epoch of before is ever given out again.
pub(crate) fn next_generation(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let generation = generation(tx)? + 1;
    tx.execute(
        "UPDATE meta SET value = ?1 WHERE key = 'generation'",
        params![generation.to_string()],
    )?;
    let floor = epoch_floor(tx)?;
    tx.execute(
        "/* looks through all */ UPDATE run SET epoch = ?1 WHERE ended IS NULL AND epoch < ?1",
        params![floor],
    )?;
    tx.execute("UPDATE session SET fence = ?1 WHERE fence < ?1", params![floor])?;
    // Zero is long ago by every clock: the next sweep takes them over by the rules for lost leases.
    tx.execute("UPDATE run SET lease_until = 0 WHERE phase = 'leased'", params![])?;
    tx.execute("UPDATE worker SET stopped = ?1 WHERE stopped IS NULL", params![tx.now()])?;
    Ok(generation)
}
