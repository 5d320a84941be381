//! Webhooks: URLs that receive the events of a namespace.

use provost_core::{Timestamp, WebhookId};

use crate::{Locked, StoreError, Tx, params};

table! {
    /// A webhook.
    WebhookRow in "webhook" {
        /// The id.
        id: WebhookId,
        /// Namespace of the row.
        namespace: String,
        /// URL that receives the events.
        url: String,
        /// Event kinds to send, as JSON; an empty list means all kinds.
        kinds: String,
        /// Time of creation.
        created: Timestamp,
        /// Time at which the webhook was disabled; `None` if it is enabled.
        disabled: Option<Timestamp>,
        /// Position in the event log up to which webhook deliveries were created.
        cursor_pos: u64,
    }
}

/// Returns the webhook with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: WebhookId) -> Result<Option<WebhookRow>, StoreError> {
    tx.fetch_optional(&WebhookRow::select("WHERE id = ?1"), params![id])
}

/// Returns the webhook with this id. `None` if the namespace has none with this id.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: WebhookId,
) -> Result<Option<WebhookRow>, StoreError> {
    let sql = WebhookRow::select("WHERE id = ?2 AND namespace = ?1");
    tx.fetch_optional(&sql, params![namespace, id])
}

/// Returns the webhooks of a namespace, oldest first, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: Option<WebhookId>,
    limit: u64,
) -> Result<Vec<WebhookRow>, StoreError> {
    let sql =
        WebhookRow::select("WHERE namespace = ?1 AND id > coalesce(?2, '') ORDER BY id LIMIT ?3");
    tx.fetch_all(&sql, params![namespace, after, limit])
}

/// Returns the enabled webhooks of all namespaces.
pub fn enabled(tx: &mut Tx<'_>) -> Result<Vec<WebhookRow>, StoreError> {
    tx.fetch_all(&WebhookRow::select("WHERE disabled IS NULL ORDER BY id"), params![])
}

/// Returns the webhook with this id, locked. `None` if it does not exist.
pub fn lock(tx: &mut Tx<'_>, id: WebhookId) -> Result<Option<Locked<WebhookRow>>, StoreError> {
    tx.lock(&WebhookRow::select("WHERE id = ?1"), params![id])
}

/// Returns the number of webhooks of a namespace.
pub fn count(tx: &mut Tx<'_>, namespace: &str) -> Result<u64, StoreError> {
    tx.fetch_one("SELECT count(*) FROM webhook WHERE namespace = ?1", params![namespace])
}

/// Moves the cursor of a webhook. Returns false if another process moved it first or the webhook is disabled.
pub fn advance(tx: &mut Tx<'_>, id: WebhookId, from: u64, to: u64) -> Result<bool, StoreError> {
    let sql =
        "UPDATE webhook SET cursor_pos = ?3 WHERE id = ?1 AND cursor_pos = ?2 AND disabled IS NULL";
    Ok(tx.execute_fenced(sql, params![id, from, to])? == 1)
}

/// Removes a webhook and its deliveries.
pub fn remove(tx: &mut Tx<'_>, id: WebhookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM webhook_post WHERE webhook_id = ?1", params![id])?;
    tx.execute("DELETE FROM webhook WHERE id = ?1", params![id]).map(drop)
}
