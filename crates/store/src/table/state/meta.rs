//! Properties of the database itself.

use crate::{StoreError, Tx, params};

/// Number of epochs in a generation. Two million restores fit into the exact range of JSON numbers.
const EPOCHS_PER_GENERATION: u64 = 1 << 32;

table! {
    /// A property of the database.
    MetaRow in "meta" {
        /// Name of the property.
        key: String,
        /// Value of the property.
        value: String,
    }
}

/// Returns the generation: the number of restores. A worker that used the database before a restore belongs to an
/// older generation.
pub fn generation(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    number(tx, "generation")
}

/// Returns the position up to which events may have been removed from the log. A client with an earlier cursor may
/// have missed events.
pub fn log_floor(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    number(tx, "log_floor")
}

/// Records the position up to which events were removed; a higher floor is kept.
pub(crate) fn raise_log_floor(tx: &mut Tx<'_>, pos: u64) -> Result<(), StoreError> {
    let sql = "UPDATE meta SET value = ?1 WHERE key = 'log_floor' AND CAST(value AS BIGINT) < ?2";
    tx.execute_fenced(sql, params![pos.to_string(), pos]).map(drop)
}

/// Reads a number of the table `meta`.
fn number(tx: &mut Tx<'_>, key: &str) -> Result<u64, StoreError> {
    let value: String = tx.fetch_one("SELECT value FROM meta WHERE key = ?1", params![key])?;
    value
        .parse()
        .map_err(|error| StoreError::Corrupt { detail: format!("the {key} is `{value}`: {error}") })
}

/// Records the time of a write check, so that the check changes a row.
pub(crate) fn probe_write(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.execute_fenced(
        "INSERT INTO meta (key, value) VALUES ('write_probe', ?1)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        params![tx.now().as_millis().to_string()],
    )
    .map(drop)
}

/// Returns the epoch at which new runs of this generation start. It is above every epoch of earlier generations.
pub fn epoch_floor(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    Ok(generation(tx)?.saturating_mul(EPOCHS_PER_GENERATION))
}

/// Starts a new generation: all leases are lost, and epochs start above every earlier epoch.
pub(crate) fn next_generation(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let generation = generation(tx)? + 1;
    tx.execute(
        "UPDATE meta SET value = ?1 WHERE key = 'generation'",
        params![generation.to_string()],
    )?;
    let floor = epoch_floor(tx)?;
    tx.execute(
        "/* full scan */ UPDATE run SET epoch = ?1 WHERE ended IS NULL AND epoch < ?1",
        params![floor],
    )?;
    tx.execute("UPDATE session SET fence = ?1 WHERE fence < ?1", params![floor])?;
    // Zero is in the past for every clock, so the next pass over expired leases recovers these runs.
    tx.execute("UPDATE run SET lease_until = 0 WHERE phase = 'leased'", params![])?;
    tx.execute("UPDATE worker SET stopped = ?1 WHERE stopped IS NULL", params![tx.now()])?;
    Ok(generation)
}
