//! Webhooks: HTTP endpoints that receive the events of a namespace at least once, even after a crash.
//!
//! A webhook has a cursor into the event log. The transaction that advances the cursor stores the deliveries of the
//! events before it, so no event is lost and none gets two delivery ids. A delivery is sent under a claim. If the
//! sender is lost, the delivery is sent again under the same id when the claim expires.

mod fill;
mod send;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RequestError, WebhookDeliveryTransition, webhook_delivery_deadline};
use provost_core::usage::limits::WEBHOOKS_MAX;
use provost_core::{Timestamp, WebhookDeliveryId, WebhookId};
use provost_store::Tx;
use provost_store::table::outbound::webhook::{self, WebhookRow};
use provost_store::table::outbound::webhook_delivery::{
    self, WebhookDeliveryFilter, WebhookDeliveryRow,
};
use provost_store::table::work::run_event;

pub use self::fill::FanoutReport;
pub use self::send::{ClaimedWebhookDelivery, WebhookClaimLimits, WebhookDeliveryResult};
use crate::engine::Engine;
use crate::error::EngineError;
use provost_store::query::page::{PAGE_MAX, Page};

/// A webhook to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// URL of the endpoint.
    pub url: String,
    /// Kinds of events to deliver. Empty: all kinds.
    pub kinds: Vec<String>,
}

/// A stored webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Id of the webhook.
    pub id: WebhookId,
    /// Namespace of the webhook.
    pub namespace: String,
    /// URL of the endpoint.
    pub url: String,
    /// Kinds of events to deliver. Empty: all kinds.
    pub kinds: Vec<String>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time since which the webhook is disabled. `None`: it is enabled.
    pub disabled: Option<Timestamp>,
    /// Position in the event log up to which deliveries were created.
    pub cursor: u64,
}

impl Webhook {
    /// Parses a stored webhook.
    fn from_row(row: WebhookRow) -> Result<Self, EngineError> {
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
    /// Creates a webhook, which receives events from now on. Fails if the namespace has too many.
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
            Webhook::from_row(row)
        });
        write.await
    }

    /// Returns a webhook. Fails if the namespace has none with this id.
    pub async fn get(self, namespace: &Namespace, id: WebhookId) -> Result<Webhook, EngineError> {
        let namespace = namespace.clone();
        self.engine.store().read(move |tx| Webhook::from_row(find(tx, &namespace, id)?)).await
    }

    /// Lists the webhooks of a namespace, oldest first, after an id.
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
        let webhooks = rows.await?.into_iter().map(Webhook::from_row).collect::<Result<_, _>>()?;
        Ok(Page::new(webhooks, limit, |webhook: &Webhook| webhook.id))
    }

    /// Disables or enables a webhook and returns it. An enabled webhook receives events from now on. Fails if the
    /// webhook does not exist.
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
            Webhook::from_row(row.into_row())
        });
        write.await
    }

    /// Deletes a webhook with its deliveries. Fails if the namespace has none with this id.
    pub async fn delete(self, namespace: &Namespace, id: WebhookId) -> Result<(), EngineError> {
        let namespace = namespace.clone();
        let write = self.engine.store().write(move |tx| {
            find(tx, &namespace, id)?;
            Ok::<_, EngineError>(webhook::remove(tx, id)?)
        });
        write.await
    }

    /// Lists up to `limit` deliveries of a webhook, newest first. `filter.before` is the cursor of the page.
    pub async fn deliveries(
        self,
        namespace: &Namespace,
        id: WebhookId,
        filter: WebhookDeliveryFilter,
        limit: u64,
    ) -> Result<Page<WebhookDeliveryRow, WebhookDeliveryId>, EngineError> {
        let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
        let rows = self.engine.store().read(move |tx| {
            find(tx, &namespace, id)?;
            Ok::<_, EngineError>(webhook_delivery::list(tx, id, &filter, limit)?)
        });
        Ok(Page::new(rows.await?, limit, |row| row.id))
    }

    /// Makes a delivery due now, under the same id and with all tries left. Fails if it is being sent.
    pub async fn redeliver(
        self,
        namespace: &Namespace,
        id: WebhookId,
        delivery: WebhookDeliveryId,
    ) -> Result<WebhookDeliveryRow, EngineError> {
        let namespace = namespace.clone();
        let write = self.engine.store().write(move |tx| {
            find(tx, &namespace, id)?;
            let row = webhook_delivery::lock(tx, delivery)?.filter(|row| row.webhook_id == id);
            let mut row =
                row.ok_or_else(|| EngineError::not_found("webhook delivery", delivery))?;
            transition(&mut row, WebhookDeliveryTransition::Resent)?;
            let now = tx.now();
            (row.tries, row.next_at, row.updated) = (0, now, now);
            row.give_up_at = webhook_delivery_deadline(now);
            row.save(tx)?;
            Ok::<_, EngineError>(row.into_row())
        });
        write.await
    }
}

/// Returns a webhook. Fails if the namespace has none with this id.
fn find(tx: &mut Tx<'_>, namespace: &Namespace, id: WebhookId) -> Result<WebhookRow, EngineError> {
    let row = webhook::find(tx, namespace.as_str(), id)?;
    row.ok_or_else(|| EngineError::not_found("webhook", id))
}

/// Applies a transition to a delivery and ends its claim. Fails if its state does not permit it. The caller stores the
/// row.
fn transition(
    row: &mut WebhookDeliveryRow,
    event: WebhookDeliveryTransition,
) -> Result<(), EngineError> {
    let next = row.state.apply(event)?;
    row.state = next;
    row.claimed_until = None;
    Ok(())
}
