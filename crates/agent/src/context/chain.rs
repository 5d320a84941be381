//! A chain of strategies, applied until the conversation fits.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::Message;
use provost_model::{ChatModel, ModelInfo};
use provost_session::SessionChange;

use super::{
    ClearToolResults, CompactionInput, CompactionResult, ContextError, ContextStrategy,
    HeuristicCounter, Summarize, Truncate, count_message,
};

/// Tries strategies in order, the cheap ones first, and stops as soon as the conversation fits.
///
/// ```
/// # use std::sync::Arc;
/// # use provost_agent::context::StrategyChain;
/// # let model = Arc::new(provost_model::ScriptedModel::new());
/// let strategy = StrategyChain::clear_tool_results().then_summarize(model).then_truncate();
/// ```
///
/// If a step fails, the next one runs. The error is returned only if no later step succeeds.
#[derive(Clone, Default)]
pub struct StrategyChain {
    steps: Vec<Arc<dyn ContextStrategy>>,
    name: String,
}

impl StrategyChain {
    /// Creates an empty chain, which changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a chain that clears old tool results.
    pub fn clear_tool_results() -> Self {
        Self::new().then(ClearToolResults::new())
    }

    /// Adds a step in which this model summarizes.
    #[must_use]
    pub fn then_summarize(self, model: Arc<dyn ChatModel>) -> Self {
        self.then(Summarize::new(model))
    }

    /// Adds a step that removes the oldest messages.
    #[must_use]
    pub fn then_truncate(self) -> Self {
        self.then(Truncate::new())
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: impl ContextStrategy) -> Self {
        if !self.name.is_empty() {
            self.name.push('+');
        }
        self.name.push_str(step.name());
        self.steps.push(Arc::new(step));
        self
    }

    async fn run(&self, input: CompactionInput<'_>) -> Result<CompactionResult, ContextError> {
        let mut fitted = CompactionResult::messages(input.messages);
        let mut tokens = input.tokens.to_vec();
        let mut failure = None;
        for step in &self.steps {
            let step_input =
                CompactionInput { messages: &fitted.messages, tokens: &tokens, ..input };
            if step_input.fits() {
                return Ok(fitted);
            }
            match step.compact(step_input).await {
                Ok(next) => {
                    tokens = recount(step_input, &next.messages);
                    fitted = join(fitted, next);
                    failure = None;
                }
                Err(error) => {
                    let strategy = step.name();
                    tracing::warn!(strategy, %error, "context strategy {strategy} gave up");
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(fitted), Err)
    }
}

impl ContextStrategy for StrategyChain {
    fn name(&self) -> &str {
        &self.name
    }

    fn compact<'a>(
        &'a self,
        input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>> {
        Box::pin(self.run(input))
    }

    fn models(&self) -> Vec<&ModelInfo> {
        self.steps.iter().flat_map(|step| step.models()).collect()
    }
}

/// Counts the tokens of messages and reuses the counts of messages that did not change.
fn recount(before: CompactionInput<'_>, messages: &[Arc<Message>]) -> Vec<u64> {
    let sizes = before.tokens.iter().copied();
    let known: HashMap<_, _> = before.messages.iter().map(Arc::as_ptr).zip(sizes).collect();
    messages
        .iter()
        .map(|message| match known.get(&Arc::as_ptr(message)) {
            Some(tokens) => *tokens,
            None => count_message(&HeuristicCounter, message),
        })
        .collect()
}

fn join(before: CompactionResult, next: CompactionResult) -> CompactionResult {
    let session: Option<SessionChange> = match (before.session, next.session) {
        (Some(first), Some(second)) => Some(first.then(second)),
        (first, second) => first.or(second),
    };
    let mut usage = before.usage;
    usage += next.usage;
    let cost = match (before.cost, next.cost) {
        // Amounts in two currencies have no sum. An unknown cost never counts as zero.
        (Some(first), Some(second)) => first.plus(second).ok(),
        (first, second) => first.or(second),
    };
    let unmetered_calls = before.calls_without_usage + next.calls_without_usage;
    CompactionResult {
        messages: next.messages,
        session,
        usage,
        cost,
        calls_without_usage: unmetered_calls,
    }
}
