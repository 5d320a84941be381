//! Deliveries of run results to channels. A failed delivery does not change the outcome of the run.

use provost_core::lifecycle::DeliveryState;
use provost_core::{DeliveryId, MessageId, RunId, Timestamp};

use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, ToColumn, Tx, params};

table! {
    /// Delivery of a run's result to one target.
    DeliveryRow in "delivery" {
        /// The id.
        id: DeliveryId,
        /// Namespace of the row.
        namespace: String,
        /// The run whose result is delivered.
        run_id: RunId,
        /// The channel.
        channel: String,
        /// The target within the channel, as JSON.
        target: String,
        /// Idempotency key for the target.
        send_key: String,
        /// Number of the redrive; rises when an operator sends the delivery again.
        generation: u64,
        /// The message to send.
        message_id: MessageId,
        /// State of the delivery.
        state: DeliveryState,
        /// Number of attempts.
        tries: u64,
        /// Time of the next attempt.
        next_at: Timestamp,
        /// Time after which the delivery becomes a dead letter.
        give_up_at: Timestamp,
        /// Time until which a sender has claimed the delivery.
        claimed_until: Option<Timestamp>,
        /// Receipt of the target.
        receipt: Option<String>,
        /// Error of the last attempt.
        last_error: Option<String>,
        /// Time of creation.
        created: Timestamp,
        /// Time of the last change.
        updated: Timestamp,
    }
}

/// Criteria for listing deliveries; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// State of the delivery.
    pub state: Option<DeliveryState>,
    /// The run whose result is delivered.
    pub run: Option<RunId>,
    /// Deliveries older than this one: the last delivery of the previous page.
    pub before: Option<DeliveryId>,
}

/// Returns the delivery with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: DeliveryId) -> Result<Option<DeliveryRow>, StoreError> {
    tx.fetch_optional(&DeliveryRow::select("WHERE id = ?1"), params![id])
}

/// Returns the delivery with this id. `None` if the namespace has none with this id.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: DeliveryId,
) -> Result<Option<DeliveryRow>, StoreError> {
    let sql = DeliveryRow::select("WHERE id = ?2 AND namespace = ?1");
    tx.fetch_optional(&sql, params![namespace, id])
}

/// Returns the delivery with this id, locked. `None` if it does not exist.
pub fn lock(tx: &mut Tx<'_>, id: DeliveryId) -> Result<Option<Locked<DeliveryRow>>, StoreError> {
    tx.lock(&DeliveryRow::select("WHERE id = ?1"), params![id])
}

/// Returns the deliveries of a run, oldest first.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<DeliveryRow>, StoreError> {
    tx.fetch_all(&DeliveryRow::select("WHERE run_id = ?1 ORDER BY id"), params![run_id])
}

/// Locks and returns up to `limit` deliveries over these channels that need an attempt now: due deliveries and expired
/// claims. The longest overdue come first. Rows that another transaction has locked are skipped.
pub fn lock_due(
    tx: &mut Tx<'_>,
    channels: &[String],
    limit: u64,
) -> Result<Vec<Locked<DeliveryRow>>, StoreError> {
    if channels.is_empty() {
        return Ok(Vec::new());
    }
    let places: Vec<String> = (3..channels.len() + 3).map(|place| format!("?{place}")).collect();
    let sql = DeliveryRow::select(&format!(
        "WHERE state IN ('pending', 'sending') AND next_at <= ?1
           AND (claimed_until IS NULL OR claimed_until <= ?1) AND channel IN ({})
         ORDER BY next_at, id LIMIT ?2",
        places.join(", ")
    ));
    let now = tx.now();
    let mut params = params![now, limit].to_vec();
    params.extend(channels.iter().map(ToColumn::to_value));
    tx.lock_all(&sql, &params)
}

/// Locks and returns pending deliveries whose time for attempts has passed.
pub fn lock_overdue(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<Locked<DeliveryRow>>, StoreError> {
    let sql = DeliveryRow::select(
        "WHERE state = 'pending' AND give_up_at <= ?1 ORDER BY next_at, id LIMIT ?2",
    );
    tx.lock_all(&sql, params![tx.now(), limit])
}

/// Returns deliveries of a namespace in one state, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    state: DeliveryState,
    limit: u64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let sql = DeliveryRow::select("WHERE namespace = ?1 AND state = ?2 ORDER BY id DESC LIMIT ?3");
    tx.fetch_all(&sql, params![namespace, state, limit])
}

/// Returns deliveries of a namespace, newest first.
pub fn page(
    tx: &mut Tx<'_>,
    namespace: &str,
    filter: &DeliveryFilter,
    limit: u64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let DeliveryFilter { state, run, before } = filter;
    Filter::of(namespace)
        .maybe("state = {}", state)
        .maybe("run_id = {}", run)
        .maybe("id < {}", before)
        .rows(tx, DeliveryRow::select, "id DESC", limit)
}

/// Returns the time of the next attempt of any unfinished delivery. `None` if there is none.
pub fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT min(next_at) FROM delivery WHERE state IN ('pending', 'sending')";
    tx.fetch_one(sql, params![])
}
