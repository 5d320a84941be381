//! Events on their way to a webhook: sent at least once, tried again for a day.

use std::time::Duration;

use crate::Timestamp;
use crate::lifecycle::Illegal;
use crate::scheduling::retry::{grown, share};
use crate::text::string_enum::words;
use crate::usage::limits::{POST_DELAY, POST_DELAY_MAX, POST_GIVE_UP};

words! {
    /// Where a post stands.
    PostState, "a state of a post" {
        /// To be sent.
        Pending = "pending",
        /// Being sent.
        Sending = "sending",
        /// The address took it.
        Delivered = "delivered",
        /// It could not be sent for a day, or the address wants no more.
        Failed = "failed",
    }
}

words! {
    /// What happens to a post.
    PostEvent, "an event of a post" {
        /// A sender takes it, or takes it from one that was lost: the address knows a repeat by its id.
        Sending = "sending",
        /// The address took it.
        Delivered = "delivered",
        /// The address did not take it for now.
        FailedForNow = "failed_for_now",
        /// It was tried for too long, or the address wants no more.
        GivenUp = "given_up",
        /// An operator asks to send it again.
        Resent = "resent",
    }
}

impl PostState {
    /// The state after an event.
    pub const fn next(self, event: PostEvent) -> Result<Self, Illegal> {
        use PostEvent as E;
        Ok(match (self, event) {
            (Self::Pending | Self::Sending, E::Sending) => Self::Sending,
            (Self::Sending, E::Delivered) => Self::Delivered,
            (Self::Sending, E::FailedForNow)
            | (Self::Pending | Self::Delivered | Self::Failed, E::Resent) => Self::Pending,
            (Self::Pending | Self::Sending, E::GivenUp) => Self::Failed,
            _ => {
                return Err(Illegal {
                    machine: "webhook post",
                    from: self.as_str(),
                    event: event.as_str(),
                    terminal: false,
                });
            }
        })
    }

    /// True if it is not sent any more unless somebody asks for it.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed)
    }
}

/// When a post that is to be sent from `first` on is given up.
pub fn post_gives_up_at(first: Timestamp) -> Timestamp {
    first.after(POST_GIVE_UP)
}

/// The time that is left for a webhook delivery.
#[derive(Debug, Clone, Copy)]
pub struct RetryWindow {
    /// The current time.
    pub now: Timestamp,
    /// The time after which the delivery is not tried again.
    pub give_up_at: Timestamp,
}

/// Returns the time of the next attempt after `tries` failed ones, or `None` if the delivery is given up.
///
/// The wait doubles from 5 s to 1 h and varies by a fifth. A longer wait that the address asked for is honoured.
/// `chance` is a random number in `0.0 ..= 1.0`.
pub fn next_post(
    tries: u32,
    asked: Option<Duration>,
    window: RetryWindow,
    chance: f64,
) -> Option<Timestamp> {
    let RetryWindow { now, give_up_at } = window;
    let step = grown(POST_DELAY, 2, tries.saturating_sub(1)).min(POST_DELAY_MAX);
    let wait = step.saturating_add(share(step / 5, chance)).min(POST_DELAY_MAX);
    let next = now.after(wait.max(asked.unwrap_or_default()));
    (next < give_up_at).then_some(next)
}

#[cfg(test)]
mod tests;
