//! Webhooks: addresses that are told what happens in a namespace.

use provost_core::{Timestamp, WebhookId};

use crate::{Locked, StoreError, Tx, params};

table! {
    /// One address.
    WebhookRow in "webhook" {
        /// The id.
        id: WebhookId,
        /// The tenancy boundary.
        namespace: String,
        /// Where to.
        url: String,
        /// The kinds of events it is told of, as JSON; all if none are named.
        kinds: String,
        /// When it was made.
        created: Timestamp,
        /// Since when it is told nothing.
        disabled: Option<Timestamp>,
        /// Posts were made for everything up to this position of the log.
        cursor_pos: u64,
    }
}

/// The webhook with the id.
pub fn get(tx: &mut Tx<'_>, id: WebhookId) -> Result<Option<WebhookRow>, StoreError> {
    tx.optional(&WebhookRow::select("WHERE id = ?1"), params![id])
}

/// The webhook with the id, if it belongs to the namespace.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: WebhookId,
) -> Result<Option<WebhookRow>, StoreError> {
    let sql = WebhookRow::select("WHERE id = ?2 AND namespace = ?1");
    tx.optional(&sql, params![namespace, id])
}

/// The webhooks of a namespace, oldest first, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: Option<WebhookId>,
    limit: u64,
) -> Result<Vec<WebhookRow>, StoreError> {
    let sql =
        WebhookRow::select("WHERE namespace = ?1 AND id > coalesce(?2, '') ORDER BY id LIMIT ?3");
    tx.all(&sql, params![namespace, after, limit])
}

/// The webhooks of all namespaces that are told something.
pub fn enabled(tx: &mut Tx<'_>) -> Result<Vec<WebhookRow>, StoreError> {
    tx.all(&WebhookRow::select("WHERE disabled IS NULL ORDER BY id"), params![])
}

/// The webhook with the id, locked.
pub fn lock(tx: &mut Tx<'_>, id: WebhookId) -> Result<Option<Locked<WebhookRow>>, StoreError> {
    tx.lock(&WebhookRow::select("WHERE id = ?1"), params![id])
}

/// How many webhooks a namespace has.
pub fn count(tx: &mut Tx<'_>, namespace: &str) -> Result<u64, StoreError> {
    tx.one("SELECT count(*) FROM webhook WHERE namespace = ?1", params![namespace])
}

/// Moves the cursor of a webhook, unless somebody else has moved it or the webhook is told nothing any more.
pub fn advance(tx: &mut Tx<'_>, id: WebhookId, from: u64, to: u64) -> Result<bool, StoreError> {
    let sql =
        "UPDATE webhook SET cursor_pos = ?3 WHERE id = ?1 AND cursor_pos = ?2 AND disabled IS NULL";
    Ok(tx.execute_fenced(sql, params![id, from, to])? == 1)
}

/// Removes a webhook with its posts.
pub fn remove(tx: &mut Tx<'_>, id: WebhookId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM webhook_post WHERE webhook_id = ?1", params![id])?;
    tx.execute("DELETE FROM webhook WHERE id = ?1", params![id]).map(drop)
}
