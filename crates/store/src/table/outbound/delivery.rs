//! Answers on their way out. Their outcome is not the run's.

use provost_core::{DeliveryId, MessageId, RunId, Timestamp};

use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, ToColumn, Tx, params};

table! {
    /// One answer for one target.
    DeliveryRow in "delivery" {
        /// The id.
        id: DeliveryId,
        /// The tenancy boundary.
        namespace: String,
        /// The run whose answer it is.
        run_id: RunId,
        /// The channel it goes over.
        channel: String,
        /// Where it goes, as JSON.
        target: String,
        /// The key that lets the target see a repetition.
        send_key: String,
        /// Rises when an operator lets it be sent anew.
        generation: u64,
        /// What is sent.
        message_id: MessageId,
        /// Where it stands.
        state: String,
        /// How often it was tried.
        tries: u64,
        /// When it is tried next.
        next_at: Timestamp,
        /// When it is left to an operator.
        give_up_at: Timestamp,
        /// Until when somebody is sending it.
        claimed_until: Option<Timestamp>,
        /// What the target answered.
        receipt: Option<String>,
        /// Why it did not work last time.
        last_error: Option<String>,
        /// When it was made.
        created: Timestamp,
        /// When it last changed.
        updated: Timestamp,
    }
}

/// Which deliveries to list.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// In this state only.
    pub state: Option<String>,
    /// Of this run only.
    pub run: Option<RunId>,
    /// Older than this one: the last of the page before.
    pub before: Option<DeliveryId>,
}

/// The delivery with the id.
pub fn get(tx: &mut Tx<'_>, id: DeliveryId) -> Result<Option<DeliveryRow>, StoreError> {
    tx.optional(&DeliveryRow::select("WHERE id = ?1"), params![id])
}

/// The delivery with the id, if it belongs to the namespace.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: DeliveryId,
) -> Result<Option<DeliveryRow>, StoreError> {
    let sql = DeliveryRow::select("WHERE id = ?2 AND namespace = ?1");
    tx.optional(&sql, params![namespace, id])
}

/// The delivery with the id, locked.
pub fn lock(tx: &mut Tx<'_>, id: DeliveryId) -> Result<Option<Locked<DeliveryRow>>, StoreError> {
    tx.lock(&DeliveryRow::select("WHERE id = ?1"), params![id])
}

/// The deliveries of a run, oldest first.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<DeliveryRow>, StoreError> {
    tx.all(&DeliveryRow::select("WHERE run_id = ?1 ORDER BY id"), params![run_id])
}

/// Deliveries over one of the channels to look at now: due ones, and claims that ran out. The longest due come first.
/// They are locked; rows that another transaction has locked are left out.
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

/// Deliveries that nobody is sending and nobody may try any longer, locked.
pub fn lock_overdue(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<Locked<DeliveryRow>>, StoreError> {
    let sql = DeliveryRow::select(
        "WHERE state = 'pending' AND give_up_at <= ?1 ORDER BY next_at, id LIMIT ?2",
    );
    tx.lock_all(&sql, params![tx.now(), limit])
}

/// Deliveries of a namespace in one state, newest first: what an operator looks through.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    state: &str,
    limit: u64,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let sql = DeliveryRow::select("WHERE namespace = ?1 AND state = ?2 ORDER BY id DESC LIMIT ?3");
    tx.all(&sql, params![namespace, state, limit])
}

/// Deliveries of a namespace, newest first.
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

/// When the next delivery that nobody is sending is due.
pub fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT min(next_at) FROM delivery WHERE state IN ('pending', 'sending')";
    tx.one(sql, params![])
}
