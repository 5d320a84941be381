//! Deliveries of events to webhooks: at least once, with retries for one day.

use std::time::Duration;

use crate::Timestamp;
use crate::lifecycle::InvalidTransition;
use crate::scheduling::retry::{grown, share};
use crate::text::string_enum::string_enum;
use crate::usage::limits::{WEBHOOK_RETRY_DELAY, WEBHOOK_RETRY_DELAY_MAX, WEBHOOK_RETRY_WINDOW};

string_enum! {
    /// State of a webhook delivery.
    WebhookDeliveryState, "a state of a webhook delivery" {
        /// Waits to be sent.
        Pending = "pending",
        /// A sender is sending it.
        Sending = "sending",
        /// The endpoint accepted it.
        Delivered = "delivered",
        /// It could not be sent within the retry window, or the endpoint wants no more events.
        Failed = "failed",
    }
}

string_enum! {
    /// Transition of a webhook delivery.
    WebhookDeliveryTransition, "an event of a webhook delivery" {
        /// A sender claims it, possibly from a lost sender. The endpoint recognizes a repetition by its id.
        Sending = "sending",
        /// The endpoint accepted it.
        Delivered = "delivered",
        /// The endpoint failed temporarily.
        FailedTransiently = "failed_for_now",
        /// The retry window ended, or the endpoint wants no more events.
        Abandoned = "given_up",
        /// An operator sends it again.
        Resent = "resent",
    }
}

impl WebhookDeliveryState {
    /// Returns the state after a transition. Fails if the state does not permit it.
    pub const fn apply(self, event: WebhookDeliveryTransition) -> Result<Self, InvalidTransition> {
        use WebhookDeliveryTransition as E;
        Ok(match (self, event) {
            (Self::Pending | Self::Sending, E::Sending) => Self::Sending,
            (Self::Sending, E::Delivered) => Self::Delivered,
            (Self::Sending, E::FailedTransiently)
            | (Self::Pending | Self::Delivered | Self::Failed, E::Resent) => Self::Pending,
            (Self::Pending | Self::Sending, E::Abandoned) => Self::Failed,
            _ => {
                return Err(InvalidTransition {
                    machine: "webhook delivery",
                    from: self.as_str(),
                    transition: event.as_str(),
                    terminal: false,
                });
            }
        })
    }

    /// Returns true if the delivery is sent again only on request: it was delivered or has failed permanently.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed)
    }
}

/// Returns the end of the retry window of a delivery that is sent from `first` on.
pub fn webhook_delivery_deadline(first: Timestamp) -> Timestamp {
    first.after(WEBHOOK_RETRY_WINDOW)
}

/// Remaining time for a webhook delivery.
#[derive(Debug, Clone, Copy)]
pub struct RetryWindow {
    /// The current time.
    pub now: Timestamp,
    /// The time after which the delivery is not retried.
    pub deadline: Timestamp,
}

/// Returns the time of the next attempt after `tries` failed ones, or `None` if it would be after the deadline.
///
/// The delay doubles from 5 s to 1 h, plus up to a fifth at random. If the endpoint requested a longer delay
/// (`requested_delay`), that delay applies. `chance` is a random number in `0.0 ..= 1.0`.
pub fn next_webhook_attempt_at(
    tries: u32,
    requested_delay: Option<Duration>,
    window: RetryWindow,
    chance: f64,
) -> Option<Timestamp> {
    let RetryWindow { now, deadline: give_up_at } = window;
    let step = grown(WEBHOOK_RETRY_DELAY, 2, tries.saturating_sub(1)).min(WEBHOOK_RETRY_DELAY_MAX);
    let wait = step.saturating_add(share(step / 5, chance)).min(WEBHOOK_RETRY_DELAY_MAX);
    let next = now.after(wait.max(requested_delay.unwrap_or_default()));
    (next < give_up_at).then_some(next)
}

#[cfg(test)]
mod tests;
