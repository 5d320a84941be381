//! Keeping a conversation within a model's context.
//!
//! A strategy is asked before every model call whose estimated size exceeds the budget. Whatever it does, a tool call is never
//! separated from its result, and the newest user message stays.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, Message, Timestamp, Usage};
use provost_model::ModelError;

/// What a strategy is given.
#[derive(Debug, Clone, Copy)]
pub struct FitInput<'a> {
    /// The conversation as it would be sent; no system message is among it.
    pub messages: &'a [Arc<Message>],
    /// Estimated tokens of each message, in the same order.
    pub tokens: &'a [u64],
    /// Estimated tokens of what is sent besides: instructions and tools.
    pub fixed_tokens: u64,
    /// What all together may have.
    pub budget: u64,
    /// For the time of messages the strategy writes.
    pub now: Timestamp,
}

/// What a strategy made of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fitted {
    /// The conversation to send from now on.
    pub messages: Vec<Arc<Message>>,
    /// How the stored session changes with it; `None` leaves it as it is.
    pub session: Option<SessionUpdate>,
    /// What the strategy's own model calls used.
    pub usage: Usage,
}

/// How a stored session changes when it is compacted. What is not popped stays stored, for the record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionUpdate {
    /// How many of the newest messages go first.
    pub pop: usize,
    /// What is added then.
    pub add: Vec<Arc<Message>>,
}

/// Why a conversation could not be made to fit.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Even the least that must stay is too large.
    #[error(
        "the conversation does not fit: {needed} tokens are needed and {budget} allowed, and no more can be left out"
    )]
    TooLarge {
        /// Estimated tokens of the least.
        needed: u64,
        /// What is allowed.
        budget: u64,
    },
    /// The model that summarizes failed.
    #[error("summarizing failed: {0}")]
    Model(#[from] ModelError),
}

impl ContextError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge { .. } => ErrorKind::Exhausted,
            Self::Model(error) => error.kind(),
        }
    }
}

/// A way to make a conversation fit.
pub trait ContextStrategy: Send + Sync + 'static {
    /// For events and messages to people.
    fn name(&self) -> &str;

    /// Makes the conversation fit, or as small as it can.
    fn fit<'a>(&'a self, input: FitInput<'a>) -> BoxFuture<'a, Result<Fitted, ContextError>>;
}
