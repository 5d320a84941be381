//! Claims of webhook deliveries, and their results. The sender that claims a delivery makes the HTTP request.

use std::time::Duration;

use provost_core::Timestamp;
use provost_core::lifecycle::{
    RetryWindow, WebhookDeliveryState, WebhookDeliveryTransition, next_webhook_attempt_at,
};
use provost_failpoint::failpoint;
use provost_store::table::outbound::webhook::{self, WebhookRow};
use provost_store::table::outbound::webhook_delivery::{self, WebhookDeliveryRow};
use provost_store::{Locked, Tx};

use super::transition;
use crate::error::EngineError;
use crate::outbound::webhook::Webhooks;

/// Limits of one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebhookClaimLimits {
    /// Maximum number of deliveries.
    pub limit: u64,
    /// Maximum number of deliveries of one webhook in flight, so that a slow endpoint does not delay others.
    pub per_webhook: u64,
    /// Duration of the claim. Afterwards another sender may claim the deliveries.
    pub duration: Duration,
}

/// A delivery to send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedWebhookDelivery {
    /// The delivery.
    pub delivery: WebhookDeliveryRow,
    /// URL of the endpoint.
    pub url: String,
}

/// Result of sending a webhook delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookDeliveryResult {
    /// The endpoint accepted the delivery.
    Delivered {
        /// Status of the response.
        status: u16,
    },
    /// The delivery failed. A retry may succeed.
    Failed {
        /// Status of the response, if there was one.
        status: Option<u16>,
        /// Reason.
        error: String,
        /// Delay before a retry that the endpoint requested.
        retry_after: Option<Duration>,
    },
    /// The endpoint no longer exists. Its webhook is disabled.
    Gone {
        /// Status of the response.
        status: u16,
    },
}

impl Webhooks<'_> {
    /// Claims deliveries to send now. Webhooks with the fewest deliveries in flight come first.
    pub async fn claim(
        self,
        claim: WebhookClaimLimits,
    ) -> Result<Vec<ClaimedWebhookDelivery>, EngineError> {
        // Usually nothing is due, and then no write transaction is needed.
        let look = self
            .engine
            .store()
            .read(|tx| Ok::<_, EngineError>((webhook_delivery::next_due(tx)?, tx.now())));
        let (next, now) = look.await?;
        if next.is_none_or(|next| next > now) {
            return Ok(Vec::new());
        }
        let claimed = self.engine.store().write(move |tx| claim_due_deliveries(tx, claim)).await;
        failpoint!("webhook.claimed");
        claimed
    }

    /// Records the result of a claimed delivery. Returns `None` if another sender has claimed it since.
    pub async fn record_result(
        self,
        delivery: &WebhookDeliveryRow,
        outcome: WebhookDeliveryResult,
    ) -> Result<Option<WebhookDeliveryRow>, EngineError> {
        failpoint!("webhook.sent");
        let (delivery, chance) = (delivery.clone(), self.engine.inner.env.random_unit());
        self.engine.store().write(move |tx| record_result(tx, &delivery, &outcome, chance)).await
    }

    /// Returns the time of the next due delivery. `None` if there is none.
    pub async fn due_at(self) -> Result<Option<Timestamp>, EngineError> {
        self.engine.store().read(|tx| Ok::<_, EngineError>(webhook_delivery::next_due(tx)?)).await
    }
}

/// Claims due deliveries inside a transaction. Each webhook has at most `per_webhook` deliveries in flight.
fn claim_due_deliveries(
    tx: &mut Tx<'_>,
    claim: WebhookClaimLimits,
) -> Result<Vec<ClaimedWebhookDelivery>, EngineError> {
    let mut webhooks: Vec<(u64, WebhookRow)> = Vec::new();
    for row in webhook::enabled(tx)? {
        webhooks.push((webhook_delivery::sending(tx, row.id)?, row));
    }
    webhooks.sort_by_key(|(sending, _)| *sending);
    let mut claimed = Vec::new();
    let until = tx.now().after(claim.duration);
    for (sending, webhook) in webhooks {
        let free = claim.per_webhook.saturating_sub(sending);
        let free = free.min(claim.limit.saturating_sub(claimed.len() as u64));
        if free == 0 {
            continue;
        }
        for mut delivery in webhook_delivery::lock_due(tx, webhook.id, free)? {
            transition(&mut delivery, WebhookDeliveryTransition::Sending)?;
            delivery.tries += 1;
            delivery.claimed_until = Some(until);
            // The delivery of a lost sender is due again when its claim expires.
            delivery.next_at = until;
            delivery.updated = tx.now();
            delivery.save(tx)?;
            claimed.push(ClaimedWebhookDelivery {
                delivery: delivery.into_row(),
                url: webhook.url.clone(),
            });
        }
    }
    Ok(claimed)
}

/// Records the result of a claimed delivery inside a transaction: it is delivered, retried or abandoned. If the
/// endpoint is gone, the webhook is disabled. `None` if another sender has claimed it since.
fn record_result(
    tx: &mut Tx<'_>,
    delivery: &WebhookDeliveryRow,
    outcome: &WebhookDeliveryResult,
    chance: f64,
) -> Result<Option<WebhookDeliveryRow>, EngineError> {
    let is_own_claim = |row: &Locked<WebhookDeliveryRow>| {
        row.state == WebhookDeliveryState::Sending
            && (row.tries, row.claimed_until) == (delivery.tries, delivery.claimed_until)
    };
    let Some(mut row) = webhook_delivery::lock(tx, delivery.id)?.filter(is_own_claim) else {
        return Ok(None);
    };
    let now = tx.now();
    row.updated = now;
    match outcome {
        WebhookDeliveryResult::Delivered { status } => {
            row.last_status = Some(u64::from(*status));
            row.last_error = None;
            transition(&mut row, WebhookDeliveryTransition::Delivered)?;
        }
        WebhookDeliveryResult::Failed { status, error, retry_after } => {
            row.last_status = status.map(u64::from);
            row.last_error = Some(error.clone());
            let tries = u32::try_from(row.tries).unwrap_or(u32::MAX);
            let window = RetryWindow { now, deadline: row.give_up_at };
            match next_webhook_attempt_at(tries, *retry_after, window, chance) {
                Some(next) => {
                    transition(&mut row, WebhookDeliveryTransition::FailedTransiently)?;
                    row.next_at = next;
                }
                None => transition(&mut row, WebhookDeliveryTransition::Abandoned)?,
            }
        }
        WebhookDeliveryResult::Gone { status } => {
            row.last_status = Some(u64::from(*status));
            row.last_error = Some("the endpoint no longer exists".to_owned());
            transition(&mut row, WebhookDeliveryTransition::Abandoned)?;
            if let Some(mut webhook) = webhook::lock(tx, row.webhook_id)? {
                webhook.disabled = webhook.disabled.or(Some(now));
                webhook.save(tx)?;
            }
        }
    }
    row.save(tx)?;
    Ok(Some(row.into_row()))
}
