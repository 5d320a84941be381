//! Bus: messages between the parts of Provost and to external receivers, behind one trait.
//!
//! The database is authoritative. A message only reports that something has changed, so every subscriber also polls. A
//! lost message delays work and never loses it. [`LocalBus`] connects the parts of one process.
//!
//! Messages serialize, so that a bus can reach other processes. [`conformance`] checks an implementation of [`Bus`].
//!
//! Three kinds of messages use the bus:
//! - a [`Wakeup`] reports that a row changed,
//! - a [`LiveEvent`] is an event of a running attempt before the log has it,
//! - a [`Notice`] reports a result to external receivers. The outbox publishes it until the bus has accepted it.

#![forbid(unsafe_code)]

pub mod conformance;
mod live;
mod local;
mod notice;
mod subscription;
mod wakeup;

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use self::live::{LiveEvent, RunAddress};
pub use self::local::LocalBus;
pub use self::notice::{DELIVERY_SETTLED, Notice, PublishError, RUN_ENDED};
pub use self::subscription::{Lagged, Subscription};
pub use self::wakeup::Wakeup;

/// A message on the bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum BusMessage {
    /// Report of a changed row.
    Wakeup(Wakeup),
    /// Event of a running attempt.
    Live(Arc<LiveEvent>),
    /// Result for external receivers.
    Notice(Arc<Notice>),
}

/// Selection of messages for a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// All wakeups.
    Wakeups,
    /// Wakeups on which a worker acts. The frequent wakeups that only report the progress of a run are excluded.
    Tasks,
    /// One wakeup.
    Wakeup(Wakeup),
    /// All live events.
    LiveEvents,
    /// All notices.
    Notices,
}

/// Delivers messages to the subscribers of their topics.
pub trait Bus: Debug + Send + Sync + 'static {
    /// Sends a message. Never blocks. The message may be lost.
    fn send(&self, message: BusMessage);

    /// Subscribes to a topic. The subscription receives every message that is sent after this call.
    fn subscribe(&self, topic: Topic) -> Subscription;

    /// Returns false only if the topic has no subscriber in any process, so that senders can skip the work for a
    /// message without a receiver. A bus that reaches other processes and does not know their subscribers returns true.
    fn may_have_subscribers(&self, topic: Topic) -> bool;

    /// Publishes a notice. `Ok` means that the bus has accepted it. After an error, the outbox publishes it again.
    fn publish<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), PublishError>>;
}
