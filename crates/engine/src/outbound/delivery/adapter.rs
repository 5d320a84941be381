//! Interface of a delivery channel.

use std::time::Duration;

use futures::future::BoxFuture;
use provost_core::Message;
use provost_core::command::ReplyTarget;
use provost_core::lifecycle::ChannelCapabilities;
use serde::{Deserialize, Serialize};

/// Recipient of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryTarget {
    /// Name of the channel.
    pub channel: String,
    /// Sending account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// Recipient in the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Thread in the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

impl DeliveryTarget {
    /// Copies the destination of a response.
    pub(super) fn of(target: &ReplyTarget<'_>) -> Self {
        Self {
            channel: target.channel.to_owned(),
            account_id: target.account_id.map(str::to_owned),
            to: target.to.map(str::to_owned),
            thread_id: target.thread_id.map(str::to_owned),
        }
    }
}

/// Receipt of a channel for a delivered message, usually the channel's message id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendReceipt(pub String);

/// Error of a channel.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message was not delivered. A retry may succeed.
    #[error("{problem}")]
    Transient {
        /// Reason.
        problem: String,
        /// Delay before a retry that the channel requested.
        retry_after: Option<Duration>,
    },
    /// The channel rejected the message. A retry would fail, too.
    #[error("{0}")]
    Permanent(String),
    /// The outcome is unknown, for example because the connection ended before the response.
    #[error("{0}")]
    Uncertain(String),
}

/// Channel that sends answers.
pub trait DeliveryAdapter: Send + Sync + 'static {
    /// Returns how the channel can handle a message that may have been sent before.
    fn capabilities(&self) -> ChannelCapabilities;

    /// Sends a message. A repetition of the same message has the same key.
    fn send<'a>(
        &'a self,
        key: &'a str,
        target: &'a DeliveryTarget,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<SendReceipt, SendError>>;

    /// Looks up a message by its key. Called only if the capabilities of the channel include it.
    fn lookup<'a>(
        &'a self,
        _key: &'a str,
        _target: &'a DeliveryTarget,
    ) -> BoxFuture<'a, Result<Option<SendReceipt>, SendError>> {
        let problem = "this channel does not support lookups".to_owned();
        Box::pin(std::future::ready(Err(SendError::Permanent(problem))))
    }
}
