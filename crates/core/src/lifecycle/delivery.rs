//! Answers on their way out. That a run ended well and that its answer arrived are two outcomes.

use std::time::Duration;

use crate::Timestamp;
use crate::lifecycle::Illegal;
use crate::recovery::EffectClass;
use crate::scheduling::retry::{grown, share};
use crate::text::string_enum::words;
use crate::usage::limits::{DELIVERY_DELAY, DELIVERY_DELAY_MAX, DELIVERY_GIVE_UP};

words! {
    /// Where a delivery stands.
    DeliveryState, "a delivery state" {
        /// To be sent.
        Pending = "pending",
        /// Being sent.
        Sending = "sending",
        /// Arrived, with a receipt.
        Delivered = "delivered",
        /// The channel refuses it for good.
        Failed = "failed",
        /// The sender was lost, and nobody can say whether it arrived.
        Unknown = "unknown",
        /// It could not be sent for too long; the answer is kept for an operator.
        Blocked = "blocked",
        /// An operator put it away.
        Dismissed = "dismissed",
    }
}

words! {
    /// What happens to a delivery.
    DeliveryEvent, "a delivery event" {
        /// A sender takes it.
        Sending = "sending",
        /// The channel gave a receipt, or knows the message when it is asked.
        Delivered = "delivered",
        /// The channel did not take it for now.
        FailedForNow = "failed_for_now",
        /// The channel refuses it for good.
        Failed = "failed",
        /// The sender was lost on the way and a repeat would be safe, or the channel does not know the message.
        SendAgain = "send_again",
        /// The sender was lost on the way and nobody can say.
        Lost = "lost",
        /// It was tried for too long.
        GivenUp = "given_up",
        /// An operator asks to send it again, as a new generation.
        Retried = "retried",
        /// An operator puts it away.
        Dismissed = "dismissed",
    }
}

impl DeliveryState {
    /// The state after an event.
    pub const fn next(self, event: DeliveryEvent) -> Result<Self, Illegal> {
        use DeliveryEvent as E;
        Ok(match (self, event) {
            (Self::Pending, E::Sending) => Self::Sending,
            (Self::Sending | Self::Unknown, E::Delivered) => Self::Delivered,
            (Self::Sending, E::FailedForNow)
            | (Self::Sending | Self::Unknown, E::SendAgain)
            | (Self::Failed | Self::Unknown | Self::Blocked, E::Retried) => Self::Pending,
            (Self::Pending | Self::Sending, E::Failed) => Self::Failed,
            (Self::Sending, E::Lost) => Self::Unknown,
            (Self::Pending | Self::Sending, E::GivenUp) => Self::Blocked,
            (Self::Pending | Self::Failed | Self::Unknown | Self::Blocked, E::Dismissed) => {
                Self::Dismissed
            }
            _ => {
                return Err(Illegal {
                    machine: "delivery",
                    from: self.as_str(),
                    event: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// True if nothing more happens to it. What failed, is blocked or unknown is still an operator's to decide.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Delivered | Self::Dismissed)
    }
}

/// What a channel can do about a message that may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// It takes our key and knows a repeat by it.
    pub accepts_key: bool,
    /// It can be asked whether it has a message.
    pub can_lookup: bool,
}

words! {
    /// What is done about a delivery whose sender was lost.
    LostSend, "what to do about a lost send" {
        /// Send it again with the same key.
        SendAgain = "send_again",
        /// Ask the channel.
        LookUp = "look_up",
        /// Say that nobody knows; never send it again silently.
        MarkUnknown = "mark_unknown",
    }
}

impl Abilities {
    /// What is done about a delivery that was being sent when its sender was lost.
    pub const fn after_loss(self) -> LostSend {
        if self.accepts_key {
            LostSend::SendAgain
        } else if self.can_lookup {
            LostSend::LookUp
        } else {
            LostSend::MarkUnknown
        }
    }

    /// The effect class of sending.
    pub const fn effect_class(self) -> EffectClass {
        match self.after_loss() {
            LostSend::SendAgain => EffectClass::Keyed,
            LostSend::LookUp => EffectClass::Provable,
            LostSend::MarkUnknown => EffectClass::Opaque,
        }
    }
}

/// When a delivery that came in at `first` is left to an operator.
pub fn give_up_at(first: Timestamp) -> Timestamp {
    first.after(DELIVERY_GIVE_UP)
}

/// When a delivery is sent again after `tries` of them failed, or `None` if it is given up.
///
/// The wait grows from 15 s to 5 min, spread by a tenth. `chance` is a random number in `0.0 ..= 1.0`.
pub fn next_send(
    tries: u32,
    now: Timestamp,
    give_up_at: Timestamp,
    chance: f64,
) -> Option<Timestamp> {
    let step: Duration = grown(DELIVERY_DELAY, 2, tries.saturating_sub(1)).min(DELIVERY_DELAY_MAX);
    let next = now.after(step.saturating_add(share(step / 10, chance)).min(DELIVERY_DELAY_MAX));
    (next < give_up_at).then_some(next)
}

#[cfg(test)]
mod tests;
