//! Deliveries of events to webhooks.

use provost_core::lifecycle::WebhookDeliveryState;
use provost_core::{Timestamp, WebhookDeliveryId, WebhookId};

use crate::{Locked, StoreError, Tx, params};

table! {
    /// Delivery of one event to one webhook.
    WebhookDeliveryRow in "webhook_post" {
        /// The id, by which the receiver recognizes a repetition.
        id: WebhookDeliveryId,
        /// The webhook.
        webhook_id: WebhookId,
        /// Namespace of the row.
        namespace: String,
        /// The event: its run id and sequence number.
        event_key: String,
        /// The request body.
        body: String,
        /// State of the delivery.
        state: WebhookDeliveryState,
        /// Number of attempts.
        tries: u64,
        /// Time of the next attempt; during an attempt, the end of the claim.
        next_at: Timestamp,
        /// Time after which the delivery fails.
        give_up_at: Timestamp,
        /// Time until which a sender has claimed the delivery.
        claimed_until: Option<Timestamp>,
        /// HTTP status of the last response.
        last_status: Option<u64>,
        /// Error of the last attempt.
        last_error: Option<String>,
        /// Time of creation.
        created: Timestamp,
        /// Time of the last change.
        updated: Timestamp,
    }
}

/// Criteria for listing webhook deliveries; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct WebhookDeliveryFilter {
    /// State of the delivery.
    pub state: Option<WebhookDeliveryState>,
    /// Deliveries older than this one: the last delivery of the previous page.
    pub before: Option<WebhookDeliveryId>,
}

/// Returns the delivery with this id. `None` if it does not exist.
pub fn get(
    tx: &mut Tx<'_>,
    id: WebhookDeliveryId,
) -> Result<Option<WebhookDeliveryRow>, StoreError> {
    tx.fetch_optional(&WebhookDeliveryRow::select("WHERE id = ?1"), params![id])
}

/// Returns the delivery with this id, locked. `None` if it does not exist.
pub fn lock(
    tx: &mut Tx<'_>,
    id: WebhookDeliveryId,
) -> Result<Option<Locked<WebhookDeliveryRow>>, StoreError> {
    tx.lock(&WebhookDeliveryRow::select("WHERE id = ?1"), params![id])
}

/// Returns the deliveries of a webhook, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    webhook_id: WebhookId,
    filter: &WebhookDeliveryFilter,
    limit: u64,
) -> Result<Vec<WebhookDeliveryRow>, StoreError> {
    let sql = WebhookDeliveryRow::select(
        "WHERE webhook_id = ?1 AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR id < ?3)
         ORDER BY id DESC LIMIT ?4",
    );
    let WebhookDeliveryFilter { state, before } = filter;
    tx.fetch_all(&sql, params![webhook_id, state, before, limit])
}

/// Locks and returns deliveries of a webhook that need an attempt now: due deliveries and expired claims. The longest
/// overdue come first. Rows that another transaction has locked are skipped.
pub fn lock_due(
    tx: &mut Tx<'_>,
    webhook_id: WebhookId,
    limit: u64,
) -> Result<Vec<Locked<WebhookDeliveryRow>>, StoreError> {
    let sql = WebhookDeliveryRow::select(
        "WHERE webhook_id = ?1 AND state IN ('pending', 'sending') AND next_at <= ?2
         ORDER BY next_at, id LIMIT ?3",
    );
    tx.lock_all(&sql, params![webhook_id, tx.now(), limit])
}

/// Returns the number of deliveries of a webhook with an attempt in flight.
pub fn sending(tx: &mut Tx<'_>, webhook_id: WebhookId) -> Result<u64, StoreError> {
    tx.fetch_one(
        "SELECT count(*) FROM webhook_post
          WHERE webhook_id = ?1 AND state IN ('pending', 'sending') AND next_at > ?2 AND claimed_until > ?2",
        params![webhook_id, tx.now()],
    )
}

/// Returns the time of the next attempt for any enabled webhook. `None` if there is none.
pub fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    tx.fetch_one(
        "SELECT min((SELECT min(p.next_at) FROM webhook_post p
                      WHERE p.webhook_id = w.id AND p.state IN ('pending', 'sending')))
           FROM webhook w WHERE w.disabled IS NULL",
        params![],
    )
}

/// Removes up to `limit` deliveries that were delivered or failed before `before`, and returns their number.
pub fn sweep(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM webhook_post WHERE id IN (
           SELECT id FROM webhook_post WHERE state IN ('delivered', 'failed') AND updated < ?1 LIMIT ?2)",
        params![before, limit],
    )
}
