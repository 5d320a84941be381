//! From posts to addresses: claims, and what came of them. The requests themselves are made by whoever claims.

use std::time::Duration;

use provost_core::Timestamp;
use provost_core::lifecycle::{
    RetryWindow, WebhookDeliveryState, WebhookDeliveryTransition, next_webhook_attempt_at,
};
use provost_failpoint::failpoint;
use provost_store::table::outbound::webhook::{self, WebhookRow};
use provost_store::table::outbound::webhook_delivery::{self, WebhookPostRow};
use provost_store::{Locked, Tx};

use super::move_on;
use crate::error::EngineError;
use crate::outbound::webhook::Webhooks;

/// How much is claimed at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Posts in all.
    pub limit: u64,
    /// Posts of one webhook that may be under way at once: a slow address must not take the place of others.
    pub per_webhook: u64,
    /// How long the sender has; afterwards another one may take them.
    pub hold: Duration,
}

/// A post to send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPost {
    /// The post.
    pub post: WebhookPostRow,
    /// Where to.
    pub url: String,
}

/// What came of sending a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PostOutcome {
    /// The address took it.
    Delivered {
        /// What it answered.
        status: u16,
    },
    /// It did not work this time.
    Failed {
        /// What the address answered, if it did.
        status: Option<u16>,
        /// What went wrong.
        error: String,
        /// When the address wants it again.
        retry_after: Option<Duration>,
    },
    /// The address wants nothing any more: its webhook is told nothing from now on.
    Gone {
        /// What it answered.
        status: u16,
    },
}

impl Webhooks<'_> {
    /// Takes posts to send now. Whoever has the fewest under way comes first.
    pub async fn claim(self, claim: Claim) -> Result<Vec<ClaimedPost>, EngineError> {
        // Most of the time nothing is due, and then nothing is written.
        let look = self
            .engine
            .store()
            .read(|tx| Ok::<_, EngineError>((webhook_delivery::next_due(tx)?, tx.now())));
        let (next, now) = look.await?;
        if next.is_none_or(|next| next > now) {
            return Ok(Vec::new());
        }
        let claimed = self.engine.store().write(move |tx| take(tx, claim)).await;
        failpoint!("webhook.claimed");
        claimed
    }

    /// Writes down what came of a post that was claimed; nothing if another sender has it by now.
    pub async fn settle(
        self,
        post: &WebhookPostRow,
        outcome: PostOutcome,
    ) -> Result<Option<WebhookPostRow>, EngineError> {
        failpoint!("webhook.sent");
        let (post, chance) = (post.clone(), self.engine.inner.env.random_unit());
        self.engine.store().write(move |tx| settle(tx, &post, &outcome, chance)).await
    }

    /// When the next post is due; nothing if there is none.
    pub async fn due_at(self) -> Result<Option<Timestamp>, EngineError> {
        self.engine.store().read(|tx| Ok::<_, EngineError>(webhook_delivery::next_due(tx)?)).await
    }
}

fn take(tx: &mut Tx<'_>, claim: Claim) -> Result<Vec<ClaimedPost>, EngineError> {
    let mut webhooks: Vec<(u64, WebhookRow)> = Vec::new();
    for row in webhook::enabled(tx)? {
        webhooks.push((webhook_delivery::sending(tx, row.id)?, row));
    }
    webhooks.sort_by_key(|(sending, _)| *sending);
    let mut claimed = Vec::new();
    let until = tx.now().after(claim.hold);
    for (sending, webhook) in webhooks {
        let room = claim.per_webhook.saturating_sub(sending);
        let room = room.min(claim.limit.saturating_sub(claimed.len() as u64));
        if room == 0 {
            continue;
        }
        for mut post in webhook_delivery::lock_due(tx, webhook.id, room)? {
            move_on(&mut post, WebhookDeliveryTransition::Sending)?;
            post.tries += 1;
            post.claimed_until = Some(until);
            // A lost sender's claim ends then, and it is due again.
            post.next_at = until;
            post.updated = tx.now();
            post.save(tx)?;
            claimed.push(ClaimedPost { post: post.into_row(), url: webhook.url.clone() });
        }
    }
    Ok(claimed)
}

fn settle(
    tx: &mut Tx<'_>,
    post: &WebhookPostRow,
    outcome: &PostOutcome,
    chance: f64,
) -> Result<Option<WebhookPostRow>, EngineError> {
    let mine = |row: &Locked<WebhookPostRow>| {
        row.state == WebhookDeliveryState::Sending.as_str()
            && (row.tries, row.claimed_until) == (post.tries, post.claimed_until)
    };
    let Some(mut row) = webhook_delivery::lock(tx, post.id)?.filter(mine) else { return Ok(None) };
    let now = tx.now();
    row.updated = now;
    match outcome {
        PostOutcome::Delivered { status } => {
            row.last_status = Some(u64::from(*status));
            row.last_error = None;
            move_on(&mut row, WebhookDeliveryTransition::Delivered)?;
        }
        PostOutcome::Failed { status, error, retry_after } => {
            row.last_status = status.map(u64::from);
            row.last_error = Some(error.clone());
            let tries = u32::try_from(row.tries).unwrap_or(u32::MAX);
            let window = RetryWindow { now, deadline: row.give_up_at };
            match next_webhook_attempt_at(tries, *retry_after, window, chance) {
                Some(next) => {
                    move_on(&mut row, WebhookDeliveryTransition::FailedTransiently)?;
                    row.next_at = next;
                }
                None => move_on(&mut row, WebhookDeliveryTransition::Abandoned)?,
            }
        }
        PostOutcome::Gone { status } => {
            row.last_status = Some(u64::from(*status));
            row.last_error = Some("the address wants nothing any more".to_owned());
            move_on(&mut row, WebhookDeliveryTransition::Abandoned)?;
            if let Some(mut webhook) = webhook::lock(tx, row.webhook_id)? {
                webhook.disabled = webhook.disabled.or(Some(now));
                webhook.save(tx)?;
            }
        }
    }
    row.save(tx)?;
    Ok(Some(row.into_row()))
}
