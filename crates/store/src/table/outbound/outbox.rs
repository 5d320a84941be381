//! What must be told to the outside, written together with the change it tells of.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// One thing to tell.
    OutboxRow in "outbox" {
        /// The id, by which a receiver sees a repetition.
        id: String,
        /// The tenancy boundary.
        namespace: String,
        /// Whom it concerns.
        topic: String,
        /// What to tell, as JSON.
        body: String,
        /// When it may be told.
        available: Timestamp,
        /// How often it was tried.
        tries: u64,
        /// Until when somebody is telling it.
        claimed_until: Option<Timestamp>,
        /// When it was told.
        done: Option<Timestamp>,
        /// Why it did not work last time.
        last_error: Option<String>,
    }
}

/// The row with the id.
pub fn get(tx: &mut Tx<'_>, id: &str) -> Result<Option<OutboxRow>, StoreError> {
    tx.optional(&OutboxRow::select("WHERE id = ?1"), params![id])
}

/// Takes up to `limit` rows to tell, until `until`; whoever dies meanwhile leaves them to the next.
pub fn claim(tx: &mut Tx<'_>, until: Timestamp, limit: u64) -> Result<Vec<OutboxRow>, StoreError> {
    let sql = format!(
        "UPDATE outbox SET claimed_until = ?2, tries = tries + 1 WHERE id IN (
           SELECT id FROM outbox WHERE done IS NULL AND available <= ?1
              AND (claimed_until IS NULL OR claimed_until <= ?1)
            ORDER BY available, id LIMIT ?3)
         RETURNING {}",
        OutboxRow::COLUMNS.join(", ")
    );
    let mut rows: Vec<OutboxRow> = tx.all_fenced(&sql, params![tx.now(), until, limit])?;
    rows.sort_by(|a, b| (a.available, &a.id).cmp(&(b.available, &b.id)));
    Ok(rows)
}

/// Notes that the row was told; the first time counts.
pub fn done(tx: &mut Tx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE outbox SET done = ?2, claimed_until = NULL, last_error = NULL WHERE id = ?1 AND done IS NULL",
        params![id, tx.now()],
    )
    .map(drop)
}

/// Notes that the try with the number `tries` did not work, and when to try again; a later claim of the row is left as it is.
pub fn retry(
    tx: &mut Tx<'_>,
    id: &str,
    tries: u64,
    available: Timestamp,
    error: &str,
) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE outbox SET available = ?2, claimed_until = NULL, last_error = ?3 
          WHERE id = ?1 AND tries = ?4 AND done IS NULL",
        params![id, available, error, tries],
    )
    .map(drop)
}

/// Forgets up to `limit` rows that were told before `told`, or that nobody took since `untold`.
pub fn sweep(
    tx: &mut Tx<'_>,
    told: Timestamp,
    untold: Timestamp,
    limit: u64,
) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM outbox WHERE id IN (
           SELECT id FROM outbox WHERE done < ?1 OR (done IS NULL AND available < ?2) LIMIT ?3)",
        params![told, untold, limit],
    )
}
