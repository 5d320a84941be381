//! Webhooks: addresses that are told what happens in a namespace, at least once, however often a process dies meanwhile.
//!
//! A webhook has a cursor into the log. Posts for what lies after it are stored in the transaction that moves it, so no event
//! is forgotten and none is told twice under another id. A post is sent under a claim; what a lost sender held is sent again
//! when the claim ends, with the same id.

mod fill;
mod send;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    RequestError, WebhookDeliveryState, WebhookDeliveryTransition, webhook_delivery_deadline,
};
use provost_core::usage::limits::WEBHOOKS_MAX;
use provost_core::{Timestamp, WebhookDeliveryId, WebhookId};
use provost_store::Tx;
use provost_store::table::outbound::webhook::{self, WebhookRow};
use provost_store::table::outbound::webhook_delivery::{self, PostFilter, WebhookPostRow};
use provost_store::table::work::run_event;

pub use self::fill::Filled;
pub use self::send::{Claim, ClaimedPost, PostOutcome};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::run::lifecycle::word;
use provost_store::query::page::{PAGE_MAX, Page};

/// A webhook that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Where to.
    pub url: String,
    /// The kinds of events it is told of; all if none are named.
    pub kinds: Vec<String>,
}

/// A webhook as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The id.
    pub id: WebhookId,
    /// The tenancy boundary.
    pub namespace: String,
    /// Where to.
    pub url: String,
    /// The kinds of events it is told of; all if none are named.
    pub kinds: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
    /// Since when it is told nothing.
    pub disabled: Option<Timestamp>,
    /// Posts were made for everything up to this position of the log.
    pub cursor: u64,
}

impl Webhook {
    fn read(row: WebhookRow) -> Result<Self, EngineError> {
        Ok(Self {
            id: row.id,
            namespace: row.namespace,
            url: row.url,
            kinds: serde_json::from_str(&row.kinds)?,
            created: row.created,
            disabled: row.disabled,
            cursor: row.cursor_pos,
        })
    }
}

/// Webhooks, and the claims of their senders. See [`Engine::webhooks`](crate::Engine::webhooks).
#[derive(Clone, Copy)]
pub struct Webhooks<'a> {
    pub(crate) engine: &'a Engine,
}

impl Webhooks<'_> {
    /// Makes a webhook. It is told of what happens from now on.
    pub async fn create(
        self,
        namespace: &Namespace,
        new: NewWebhook,
    ) -> Result<Webhook, EngineError> {
        let (namespace, id) = (namespace.clone(), self.engine.inner.env.id());
        let kinds = serde_json::to_string(&new.kinds)?;
        let write = self.engine.store().write(move |tx| {
            if webhook::count(tx, namespace.as_str())? >= WEBHOOKS_MAX as u64 {
                let full =
                    RequestError::LimitExceeded { what: "the list of webhooks", cap: WEBHOOKS_MAX };
                return Err(full.into());
            }
            let row = WebhookRow {
                id,
                namespace: namespace.to_string(),
                url: new.url.clone(),
                kinds: kinds.clone(),
                created: tx.now(),
                disabled: None,
                cursor_pos: run_event::last_pos(tx)?,
            };
            row.insert(tx)?;
            Webhook::read(row)
        });
        write.await
    }

    /// A webhook as it stands.
    pub async fn get(self, namespace: &Namespace, id: WebhookId) -> Result<Webhook, EngineError> {
        let namespace = namespace.clone();
        self.engine.store().read(move |tx| Webhook::read(find(tx, &namespace, id)?)).await
    }

    /// The webhooks of a namespace, oldest first, after an id.
    pub async fn list(
        self,
        namespace: &Namespace,
        after: Option<WebhookId>,
        limit: u64,
    ) -> Result<Page<Webhook, WebhookId>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let rows = self.engine.store().read(move |tx| {
            Ok::<_, EngineError>(webhook::list(tx, namespace.as_str(), after, limit)?)
        });
        let webhooks = rows.await?.into_iter().map(Webhook::read).collect::<Result<_, _>>()?;
        Ok(Page::new(webhooks, limit, |webhook: &Webhook| webhook.id))
    }

    /// Tells a webhook nothing any more, or again: then of what happens from now on.
    pub async fn set_disabled(
        self,
        namespace: &Namespace,
        id: WebhookId,
        disabled: bool,
    ) -> Result<Webhook, EngineError> {
        let namespace = namespace.clone();
        let write = self.engine.store().write(move |tx| {
            find(tx, &namespace, id)?;
            let row = webhook::lock(tx, id)?;
            let mut row = row.ok_or_else(|| EngineError::not_found("webhook", id))?;
            match (disabled, row.disabled) {
                (true, None) => row.disabled = Some(tx.now()),
                (false, Some(_)) => {
                    row.disabled = None;
                    row.cursor_pos = run_event::last_pos(tx)?;
                }
                _ => {}
            }
            row.save(tx)?;
            Webhook::read(row.into_row())
        });
        write.await
    }

    /// Removes a webhook with its posts.
    pub async fn delete(self, namespace: &Namespace, id: WebhookId) -> Result<(), EngineError> {
        let namespace = namespace.clone();
        let write = self.engine.store().write(move |tx| {
            find(tx, &namespace, id)?;
            Ok::<_, EngineError>(webhook::remove(tx, id)?)
        });
        write.await
    }

    /// The posts of a webhook, newest first. The next page begins where `filter.before` says.
    pub async fn posts(
        self,
        namespace: &Namespace,
        id: WebhookId,
        filter: PostFilter,
        limit: u64,
    ) -> Result<Page<WebhookPostRow, WebhookDeliveryId>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let rows = self.engine.store().read(move |tx| {
            find(tx, &namespace, id)?;
            Ok::<_, EngineError>(webhook_delivery::list(tx, id, &filter, limit)?)
        });
        Ok(Page::new(rows.await?, limit, |row| row.id))
    }

    /// Sends a post again, whether it has arrived or not, unless it is being sent. It keeps its id.
    pub async fn resend(
        self,
        namespace: &Namespace,
        id: WebhookId,
        post: WebhookDeliveryId,
    ) -> Result<WebhookPostRow, EngineError> {
        let namespace = namespace.clone();
        let write = self.engine.store().write(move |tx| {
            find(tx, &namespace, id)?;
            let row = webhook_delivery::lock(tx, post)?.filter(|row| row.webhook_id == id);
            let mut row = row.ok_or_else(|| EngineError::not_found("webhook post", post))?;
            move_on(&mut row, WebhookDeliveryTransition::Resent)?;
            let now = tx.now();
            (row.tries, row.next_at, row.updated) = (0, now, now);
            row.give_up_at = webhook_delivery_deadline(now);
            row.save(tx)?;
            Ok::<_, EngineError>(row.into_row())
        });
        write.await
    }
}

fn find(tx: &mut Tx<'_>, namespace: &Namespace, id: WebhookId) -> Result<WebhookRow, EngineError> {
    let row = webhook::find(tx, namespace.as_str(), id)?;
    row.ok_or_else(|| EngineError::not_found("webhook", id))
}

/// Moves a post; whoever held it holds it no more. The caller stores the row.
fn move_on(row: &mut WebhookPostRow, event: WebhookDeliveryTransition) -> Result<(), EngineError> {
    let next = word::<WebhookDeliveryState>(&row.state)?.apply(event)?;
    row.state = next.as_str().to_owned();
    row.claimed_until = None;
    Ok(())
}
