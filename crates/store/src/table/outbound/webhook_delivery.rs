//! Events on their way to webhooks.

use provost_core::{Timestamp, WebhookId, WebhookPostId};

use crate::{Locked, StoreError, Tx, params};

table! {
    /// One event for one address.
    WebhookPostRow in "webhook_post" {
        /// The id, by which the address sees a repetition.
        id: WebhookPostId,
        /// The webhook.
        webhook_id: WebhookId,
        /// The tenancy boundary.
        namespace: String,
        /// The event: its run and its number.
        event_key: String,
        /// What is sent.
        body: String,
        /// Where it stands.
        state: String,
        /// How often it was tried.
        tries: u64,
        /// When it is tried next; while it is being sent, when the claim ends.
        next_at: Timestamp,
        /// When it is given up.
        give_up_at: Timestamp,
        /// Until when somebody is sending it.
        claimed_until: Option<Timestamp>,
        /// What the address last answered.
        last_status: Option<u64>,
        /// Why it did not work last time.
        last_error: Option<String>,
        /// When it was made.
        created: Timestamp,
        /// When it last changed.
        updated: Timestamp,
    }
}

/// Which posts to list.
#[derive(Debug, Clone, Default)]
pub struct PostFilter {
    /// In this state only.
    pub state: Option<String>,
    /// Older than this one: the last of the page before.
    pub before: Option<WebhookPostId>,
}

/// The post with the id.
pub fn get(tx: &mut Tx<'_>, id: WebhookPostId) -> Result<Option<WebhookPostRow>, StoreError> {
    tx.optional(&WebhookPostRow::select("WHERE id = ?1"), params![id])
}

/// The post with the id, locked.
pub fn lock(
    tx: &mut Tx<'_>,
    id: WebhookPostId,
) -> Result<Option<Locked<WebhookPostRow>>, StoreError> {
    tx.lock(&WebhookPostRow::select("WHERE id = ?1"), params![id])
}

/// The posts of a webhook, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    webhook_id: WebhookId,
    filter: &PostFilter,
    limit: u64,
) -> Result<Vec<WebhookPostRow>, StoreError> {
    let sql = WebhookPostRow::select(
        "WHERE webhook_id = ?1 AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR id < ?3)
         ORDER BY id DESC LIMIT ?4",
    );
    let PostFilter { state, before } = filter;
    tx.all(&sql, params![webhook_id, state, before, limit])
}

/// The posts of a webhook to send now: due ones, and those whose sender was lost. The longest due come first. They are locked;
/// rows that another transaction has locked are left out.
pub fn lock_due(
    tx: &mut Tx<'_>,
    webhook_id: WebhookId,
    limit: u64,
) -> Result<Vec<Locked<WebhookPostRow>>, StoreError> {
    let sql = WebhookPostRow::select(
        "WHERE webhook_id = ?1 AND state IN ('pending', 'sending') AND next_at <= ?2
         ORDER BY next_at, id LIMIT ?3",
    );
    tx.lock_all(&sql, params![webhook_id, tx.now(), limit])
}

/// How many posts of a webhook are being sent.
pub fn sending(tx: &mut Tx<'_>, webhook_id: WebhookId) -> Result<u64, StoreError> {
    tx.one(
        "SELECT count(*) FROM webhook_post
          WHERE webhook_id = ?1 AND state IN ('pending', 'sending') AND next_at > ?2 AND claimed_until > ?2",
        params![webhook_id, tx.now()],
    )
}

/// When the next post of a webhook that is told something is due.
pub fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    tx.one(
        "SELECT min((SELECT min(p.next_at) FROM webhook_post p
                      WHERE p.webhook_id = w.id AND p.state IN ('pending', 'sending')))
           FROM webhook w WHERE w.disabled IS NULL",
        params![],
    )
}

/// Removes up to `limit` posts that were settled before `before`.
pub fn sweep(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM webhook_post WHERE id IN (
           SELECT id FROM webhook_post WHERE state IN ('delivered', 'failed') AND updated < ?1 LIMIT ?2)",
        params![before, limit],
    )
}
