//! The door to a channel.

use std::time::Duration;

use futures::future::BoxFuture;
use provost_core::Message;
use provost_core::command::ReplyTarget;
use provost_core::lifecycle::ChannelCapabilities;
use serde::{Deserialize, Serialize};

/// Where an answer goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The channel.
    pub channel: String,
    /// The account that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// Who is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// In which thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}

impl Target {
    pub(super) fn of(target: &ReplyTarget<'_>) -> Self {
        Self {
            channel: target.channel.to_owned(),
            account_id: target.account_id.map(str::to_owned),
            to: target.to.map(str::to_owned),
            thread_id: target.thread_id.map(str::to_owned),
        }
    }
}

/// What a channel says about a message that arrived: usually its own id of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt(pub String);

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Not for now: it did not arrive and may be tried again.
    #[error("{problem}")]
    NotNow {
        /// What is wrong.
        problem: String,
        /// When the channel wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// Never: the channel does not take this message.
    #[error("{0}")]
    Refused(String),
    /// Nobody knows: the connection ended before the answer.
    #[error("{0}")]
    Unsure(String),
}

/// A channel that answers are sent over.
pub trait DeliveryAdapter: Send + Sync + 'static {
    /// What it can do about a message that may have been sent.
    fn abilities(&self) -> ChannelCapabilities;

    /// Sends a message. The key is the same whenever this very message is sent again.
    fn send<'a>(
        &'a self,
        key: &'a str,
        target: &'a Target,
        message: &'a Message,
    ) -> BoxFuture<'a, Result<Receipt, SendError>>;

    /// Has it a message with this key? Asked only of a channel that says it can answer.
    fn lookup<'a>(
        &'a self,
        _key: &'a str,
        _target: &'a Target,
    ) -> BoxFuture<'a, Result<Option<Receipt>, SendError>> {
        let problem = "this channel cannot look messages up".to_owned();
        Box::pin(std::future::ready(Err(SendError::Refused(problem))))
    }
}
