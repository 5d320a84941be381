//! The bus: messages between the parts of Provost and to the outside, behind one trait.
//!
//! The database is the truth. A message only says that there is something new, so every subscriber also polls and a lost message
//! delays work and never loses it. [`LocalBus`] connects the parts of one process.
//!
//! Three kinds of messages use the bus:
//! - a [`Wakeup`] says that a row changed,
//! - a [`LiveEvent`] is an event of a running attempt before the log has it,
//! - a [`Notice`] tells the outside about a result; the outbox publishes it until the bus has accepted it.

#![forbid(unsafe_code)]

mod live;
mod local;
mod notice;
mod subscription;
mod wakeup;

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;

pub use self::live::{LiveEvent, RunAddress};
pub use self::local::LocalBus;
pub use self::notice::{DELIVERY_SETTLED, Notice, PublishError, RUN_ENDED};
pub use self::subscription::{Lagged, Subscription};
pub use self::wakeup::Wakeup;

/// A message on the bus.
#[derive(Debug, Clone)]
pub enum Message {
    /// A row changed.
    Wakeup(Wakeup),
    /// An attempt does something.
    Live(Arc<LiveEvent>),
    /// Something has a result.
    Notice(Arc<Notice>),
}

/// What a subscriber receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Every wake-up.
    Wakeups,
    /// The wake-ups on which a worker acts. Wake-ups that only report the progress of a run, which are very many, are left out.
    Tasks,
    /// One wake-up.
    Wakeup(Wakeup),
    /// Every live event.
    LiveEvents,
    /// Every notice.
    Notices,
}

/// Carries messages to the subscribers of their topics.
pub trait Bus: Debug + Send + Sync + 'static {
    /// Sends a message. It never blocks, and the message may be lost.
    fn send(&self, message: Message);

    /// Subscribes to a topic. The subscription receives every message that is sent after this call.
    fn subscribe(&self, topic: Topic) -> Subscription;

    /// True if a message of the topic has a subscriber. Senders skip the work for messages without one.
    fn has_subscribers(&self, topic: Topic) -> bool;

    /// Publishes a notice. `Ok` means that the bus has accepted it; after an error the outbox publishes it again.
    fn publish<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), PublishError>>;
}
