//! The outbox: notifications of external systems, written in the same transaction as the change that they report.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// A notification.
    OutboxRow in "outbox" {
        /// The id, by which receivers recognize a repetition.
        id: String,
        /// Namespace of the row.
        namespace: String,
        /// Topic of the notification.
        topic: String,
        /// The notification, as JSON.
        body: String,
        /// Time from which the notification may be sent.
        available: Timestamp,
        /// Number of attempts.
        tries: u64,
        /// Time until which a sender has claimed the notification.
        claimed_until: Option<Timestamp>,
        /// Time at which the notification was sent.
        done: Option<Timestamp>,
        /// Error of the last attempt.
        last_error: Option<String>,
    }
}

/// Returns the notification with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: &str) -> Result<Option<OutboxRow>, StoreError> {
    tx.fetch_optional(&OutboxRow::select("WHERE id = ?1"), params![id])
}

/// Claims up to `limit` notifications until `until`. If the sender crashes, another sender can claim them after that
/// time.
pub fn claim(tx: &mut Tx<'_>, until: Timestamp, limit: u64) -> Result<Vec<OutboxRow>, StoreError> {
    let sql = format!(
        "UPDATE outbox SET claimed_until = ?2, tries = tries + 1 WHERE id IN (
           SELECT id FROM outbox WHERE done IS NULL AND available <= ?1
              AND (claimed_until IS NULL OR claimed_until <= ?1)
            ORDER BY available, id LIMIT ?3)
         RETURNING {}",
        OutboxRow::COLUMNS.join(", ")
    );
    let mut rows: Vec<OutboxRow> = tx.fetch_all_fenced(&sql, params![tx.now(), until, limit])?;
    rows.sort_by(|a, b| (a.available, &a.id).cmp(&(b.available, &b.id)));
    Ok(rows)
}

/// Records that the notification was sent. The first time is kept.
pub fn done(tx: &mut Tx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE outbox SET done = ?2, claimed_until = NULL, last_error = NULL WHERE id = ?1 AND done IS NULL",
        params![id, tx.now()],
    )
    .map(drop)
}

/// Records the failure of attempt `tries` and the time of the next attempt. Does nothing if a later attempt has
/// claimed the notification.
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

/// Removes up to `limit` notifications that were sent before `told`, or that are unsent and were due before `untold`.
/// Returns their number.
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
