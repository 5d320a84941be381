//! Keeping a conversation within a model's context.
//!
//! A strategy is asked before every model call whose estimated size exceeds the budget. Whatever it does, a tool call is never
//! separated from its result, and the newest user message stays.
//!
//! Strategies expect a history that [`repair`] finds nothing wrong with, and leave one.

mod chain;
mod group;
mod repair;
mod sliding;
mod summarize;
mod tool_results;
mod truncate;

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, Message, Money, Role, Timestamp, Usage};
use provost_model::{ModelError, ModelInfo};
use provost_session::SessionChange;

pub use provost_model::tokens::{
    Calibration, Estimate, TokenCount, TokenCounter, count_message, count_request, count_system,
    count_tools,
};

pub use self::chain::Chain;
pub use self::repair::repair;
pub use self::sliding::Sliding;
pub use self::summarize::Summarize;
pub use self::tool_results::ShortenToolResults;
pub use self::truncate::Truncate;

/// What a run starts from: a stored conversation from its last summary on, made valid; and how much had to be repaired.
/// Calls at the very end are not broken if their results are what the run brings.
pub fn opening(stored: &[Arc<Message>], brings_results: bool) -> (Vec<Arc<Message>>, usize) {
    let mut active = active(stored).to_vec();
    let owed = match active.last() {
        Some(last) if brings_results && last.role == Role::Assistant => active.pop(),
        _ => None,
    };
    let (mut messages, repairs) = repair(active);
    messages.extend(owed);
    (messages, repairs)
}

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

impl FitInput<'_> {
    /// Estimated tokens of everything together.
    pub fn total(&self) -> u64 {
        self.tokens.iter().fold(self.fixed_tokens, |sum, tokens| sum.saturating_add(*tokens))
    }

    /// True if nothing needs to be done.
    pub fn fits(&self) -> bool {
        self.total() <= self.budget
    }

    /// Where a strategy stops once it has to shorten: some room below the budget, so that the next turns need no shortening
    /// again and the provider's prompt cache stays good for them.
    fn target(&self) -> u64 {
        self.budget - self.budget / 5
    }
}

/// What a strategy made of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fitted {
    /// The conversation to send from now on.
    pub messages: Vec<Arc<Message>>,
    /// How the stored session changes with it; `None` leaves it as it is. Removed messages are counted from the end of the
    /// conversation that the strategy was given: messages that are not stored yet count, too.
    pub session: Option<SessionChange>,
    /// What the strategy's own model calls used.
    pub usage: Usage,
    /// What that cost, if its price is known.
    pub cost: Option<Money>,
    /// How many of those calls did not say what they used.
    pub unmetered_calls: u32,
}

impl Fitted {
    /// These messages, and nothing else changes.
    pub fn messages(messages: impl Into<Vec<Arc<Message>>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }
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
    ///
    /// A conversation that fits comes back as it is. [`ContextError::TooLarge`] means that not even the newest user message
    /// and the newest step fit.
    fn fit<'a>(&'a self, input: FitInput<'a>) -> BoxFuture<'a, Result<Fitted, ContextError>>;

    /// The models that it may ask. A policy that does not allow one of them ends the run before it is asked, so a strategy that
    /// asks any must name it.
    fn models(&self) -> Vec<&ModelInfo> {
        Vec::new()
    }
}

/// The part of a stored conversation that is sent to a model: everything from the last summary on.
pub fn active(messages: &[Arc<Message>]) -> &[Arc<Message>] {
    let start = messages.iter().rposition(|message| message.role == Role::Summary);
    &messages[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests;
