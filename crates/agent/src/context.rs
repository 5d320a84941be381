//! Context management: keeps a conversation within a model's context window.
//!
//! A strategy runs before every model call whose estimated size exceeds the budget. No strategy separates a tool call
//! from its result or removes the newest user message.
//!
//! Strategies expect a history that [`repair`] would not change, and return one.

mod chain;
mod group;
mod repair;
mod sliding;
mod summarize;
mod tool_results;
mod truncate;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, Message, Money, Role, Timestamp, Usage};
use provost_model::{ModelError, ModelInfo};
use provost_session::SessionChange;

pub use provost_model::tokens::{
    HeuristicCounter, TokenCalibration, TokenCount, TokenCounter, count_message, count_request,
    count_system, count_tools,
};

pub use self::chain::StrategyChain;
pub use self::repair::repair;
pub use self::sliding::SlidingWindow;
pub use self::summarize::Summarize;
pub use self::tool_results::ClearToolResults;
pub use self::truncate::Truncate;

/// Default number of tokens reserved for the response.
const RESERVE_DEFAULT: u64 = 4096;

/// How an agent fits its conversations into the context window of the model: a strategy and its token limits.
///
/// ```
/// use provost_agent::context::{ContextConfig, Truncate};
///
/// let context = ContextConfig::new(Truncate::new()).max_tokens(20_000);
/// # drop(context);
/// ```
#[derive(Clone)]
pub struct ContextConfig {
    pub(crate) strategy: Arc<dyn ContextStrategy>,
    /// Maximum tokens of a request. `None` means the model's context window minus `reserve`.
    pub(crate) max_tokens: Option<u64>,
    /// Tokens reserved for the response.
    pub(crate) reserve: u64,
}

impl ContextConfig {
    /// Uses this strategy with the model's context window as the limit.
    pub fn new(strategy: impl ContextStrategy) -> Self {
        Self { strategy: Arc::new(strategy), max_tokens: None, reserve: RESERVE_DEFAULT }
    }

    /// Sets the maximum tokens of a request, which replaces the model's context window.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets the tokens of the model's context window that are reserved for the response.
    #[must_use]
    pub fn reserve(mut self, tokens: u64) -> Self {
        self.reserve = tokens;
        self
    }
}

impl<S: ContextStrategy> From<S> for ContextConfig {
    fn from(strategy: S) -> Self {
        Self::new(strategy)
    }
}

impl fmt::Debug for ContextConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextConfig")
            .field("strategy", &self.strategy.name())
            .field("max_tokens", &self.max_tokens)
            .field("reserve", &self.reserve)
            .finish()
    }
}

/// Returns the initial context of a run: the stored conversation from its last summary on, repaired, and the number of
/// repairs. If `brings_results` is true, calls at the very end stay without results, because the input of the run
/// contains them.
pub fn load_context(stored: &[Arc<Message>], brings_results: bool) -> (Vec<Arc<Message>>, usize) {
    let mut active = since_last_summary(stored).to_vec();
    let owed = match active.last() {
        Some(last) if brings_results && last.role == Role::Assistant => active.pop(),
        _ => None,
    };
    let (mut messages, repairs) = repair(active);
    messages.extend(owed);
    (messages, repairs)
}

/// Conversation and token budget for a strategy.
#[derive(Debug, Clone, Copy)]
pub struct CompactionInput<'a> {
    /// The conversation that would be sent, without system messages.
    pub messages: &'a [Arc<Message>],
    /// Estimated tokens of each message, in the same order.
    pub tokens: &'a [u64],
    /// Estimated tokens of the instructions and tools.
    pub fixed_tokens: u64,
    /// Maximum tokens of the whole request.
    pub budget: u64,
    /// The time for messages that the strategy creates.
    pub now: Timestamp,
}

impl CompactionInput<'_> {
    /// Estimated tokens of the whole request.
    pub fn total(&self) -> u64 {
        self.tokens.iter().fold(self.fixed_tokens, |sum, tokens| sum.saturating_add(*tokens))
    }

    /// Returns true if the request is within the budget.
    pub fn fits(&self) -> bool {
        self.total() <= self.budget
    }

    /// Returns the size to which a strategy compacts: below the budget, so that the next turns need no compaction and
    /// the provider's prompt cache stays valid.
    fn target(&self) -> u64 {
        self.budget - self.budget / 5
    }
}

/// Compacted conversation with the usage of the strategy's model calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompactionResult {
    /// The new context.
    pub messages: Vec<Arc<Message>>,
    /// The change of the stored session. `None` leaves it unchanged. Removed messages are counted from the end of the
    /// conversation that the strategy received, including messages that are not stored yet.
    pub session: Option<SessionChange>,
    /// Token usage of the strategy's own model calls.
    pub usage: Usage,
    /// Their cost. `None` if the price is unknown.
    pub cost: Option<Money>,
    /// Number of model calls whose usage was not reported.
    pub calls_without_usage: u32,
}

impl CompactionResult {
    /// Creates a result that replaces the context and changes nothing else.
    pub fn messages(messages: impl Into<Vec<Arc<Message>>>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }
}

/// Error of a context strategy.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// Even the messages that must stay exceed the budget.
    #[error(
        "the conversation does not fit: {needed} tokens are needed and {budget} allowed, and no more can be left out"
    )]
    TooLarge {
        /// Estimated tokens of the messages that must stay.
        needed: u64,
        /// Maximum tokens of the whole request.
        budget: u64,
    },
    /// The summarizing model failed.
    #[error("summarizing failed: {0}")]
    Model(#[from] ModelError),
}

impl ContextError {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::TooLarge { .. } => ErrorKind::Exhausted,
            Self::Model(error) => error.kind(),
        }
    }
}

/// A strategy that compacts a conversation.
pub trait ContextStrategy: Send + Sync + 'static {
    /// Returns the name of the strategy in events and messages.
    fn name(&self) -> &str;

    /// Compacts the conversation to its budget, or as far as possible.
    ///
    /// A conversation within the budget is returned unchanged. [`ContextError::TooLarge`] means that not even the
    /// newest user message and the newest step fit.
    fn compact<'a>(
        &'a self,
        input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>>;

    /// The models that the strategy may call. A strategy must list each of them: if a policy denies one, the run ends
    /// before the call.
    fn models(&self) -> Vec<&ModelInfo> {
        Vec::new()
    }
}

/// Returns the part of a stored conversation that is sent to a model: the messages from the last summary on, or all.
pub fn since_last_summary(messages: &[Arc<Message>]) -> &[Arc<Message>] {
    let start = messages.iter().rposition(|message| message.role == Role::Summary);
    &messages[start.unwrap_or(0)..]
}

#[cfg(test)]
mod tests;
