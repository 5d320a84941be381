//! Deliveries of responses to channels. The outcome of a delivery is separate from the outcome of its run.

use std::time::Duration;

use crate::Timestamp;
use crate::lifecycle::InvalidTransition;
use crate::recovery::EffectClass;
use crate::scheduling::retry::{grown, share};
use crate::text::string_enum::string_enum;
use crate::usage::limits::{DELIVERY_RETRY_DELAY, DELIVERY_RETRY_DELAY_MAX, DELIVERY_RETRY_WINDOW};

string_enum! {
    /// State of a delivery.
    DeliveryState, "a delivery state" {
        /// Waits to be sent.
        Pending = "pending",
        /// A sender is sending it.
        Sending = "sending",
        /// Delivered; the channel returned a receipt.
        Delivered = "delivered",
        /// The channel rejected it permanently.
        Failed = "failed",
        /// The sender was lost, and it is unknown whether the message arrived.
        Unknown = "unknown",
        /// Dead letter: it could not be sent before its deadline. The response is kept for an operator.
        Blocked = "blocked",
        /// An operator closed it.
        Dismissed = "dismissed",
    }
}

string_enum! {
    /// Transition of a delivery.
    DeliveryTransition, "a delivery event" {
        /// A sender claims it.
        Sending = "sending",
        /// The channel returned a receipt, or confirmed the message on lookup.
        Delivered = "delivered",
        /// The channel failed temporarily.
        FailedTransiently = "failed_for_now",
        /// The channel rejected it permanently.
        Failed = "failed",
        /// The sender was lost, and either a repetition is safe or the channel does not know the message.
        Resend = "send_again",
        /// The sender was lost and the outcome is unknown.
        Lost = "lost",
        /// The deadline has passed.
        Abandoned = "given_up",
        /// An operator sends it again, as a new generation.
        Retried = "retried",
        /// An operator closes it.
        Dismissed = "dismissed",
    }
}

impl DeliveryState {
    /// Returns the state after a transition. Fails if the state does not permit it.
    pub const fn apply(self, event: DeliveryTransition) -> Result<Self, InvalidTransition> {
        use DeliveryTransition as E;
        Ok(match (self, event) {
            (Self::Pending, E::Sending) => Self::Sending,
            (Self::Sending | Self::Unknown, E::Delivered) => Self::Delivered,
            (Self::Sending, E::FailedTransiently)
            | (Self::Sending | Self::Unknown, E::Resend)
            | (Self::Failed | Self::Unknown | Self::Blocked, E::Retried) => Self::Pending,
            (Self::Pending | Self::Sending, E::Failed) => Self::Failed,
            (Self::Sending, E::Lost) => Self::Unknown,
            (Self::Pending | Self::Sending, E::Abandoned) => Self::Blocked,
            (Self::Pending | Self::Failed | Self::Unknown | Self::Blocked, E::Dismissed) => {
                Self::Dismissed
            }
            _ => {
                return Err(InvalidTransition {
                    machine: "delivery",
                    from: self.as_str(),
                    transition: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// Returns true if the delivery cannot change any more. A failed, blocked or unknown delivery waits for an
    /// operator.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Delivered | Self::Dismissed)
    }
}

/// Features of a channel that matter when a message may already have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChannelCapabilities {
    /// The channel accepts an idempotency key and recognizes repetitions by it.
    pub accepts_key: bool,
    /// The channel can be queried for a message.
    pub can_lookup: bool,
}

string_enum! {
    /// Action for a delivery whose sender was lost.
    UncertainSendAction, "what to do about a lost send" {
        /// Send it again with the same key.
        Resend = "send_again",
        /// Query the channel for the message.
        LookUp = "look_up",
        /// Mark the outcome as unknown. The message is not sent again automatically.
        MarkUnknown = "mark_unknown",
    }
}

impl ChannelCapabilities {
    /// Returns the action for a delivery that was in flight when its sender was lost.
    pub const fn after_sender_loss(self) -> UncertainSendAction {
        if self.accepts_key {
            UncertainSendAction::Resend
        } else if self.can_lookup {
            UncertainSendAction::LookUp
        } else {
            UncertainSendAction::MarkUnknown
        }
    }

    /// Returns the effect class of sending.
    pub const fn effect_class(self) -> EffectClass {
        match self.after_sender_loss() {
            UncertainSendAction::Resend => EffectClass::Keyed,
            UncertainSendAction::LookUp => EffectClass::Provable,
            UncertainSendAction::MarkUnknown => EffectClass::Opaque,
        }
    }
}

/// Returns the time at which a delivery that was created at `first` becomes a dead letter.
pub fn delivery_deadline(first: Timestamp) -> Timestamp {
    first.after(DELIVERY_RETRY_WINDOW)
}

/// Returns the time of the next attempt after `tries` failed ones, or `None` if the deadline passes before it.
///
/// The delay doubles from 15 s to 5 min, plus up to a tenth at random. `chance` is a random number in `0.0 ..= 1.0`.
pub fn next_delivery_at(
    tries: u32,
    now: Timestamp,
    deadline: Timestamp,
    chance: f64,
) -> Option<Timestamp> {
    let step: Duration =
        grown(DELIVERY_RETRY_DELAY, 2, tries.saturating_sub(1)).min(DELIVERY_RETRY_DELAY_MAX);
    let next =
        now.after(step.saturating_add(share(step / 10, chance)).min(DELIVERY_RETRY_DELAY_MAX));
    (next < deadline).then_some(next)
}

#[cfg(test)]
mod tests;
