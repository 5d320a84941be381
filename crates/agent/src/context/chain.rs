//! Several strategies, one after the other, until the conversation fits.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::Message;
use provost_model::{ChatModel, ModelInfo};
use provost_session::SessionChange;

use super::{
    ContextError, ContextStrategy, Estimate, FitInput, Fitted, ShortenToolResults, Summarize,
    Truncate, count_message,
};

/// Tries strategies in order, the cheap ones first, and stops as soon as the conversation fits.
///
/// ```
/// # use std::sync::Arc;
/// # use provost_agent::context::Chain;
/// # let model = Arc::new(provost_model::ScriptedModel::new());
/// let strategy = Chain::tool_results_first().then_summarize(model).then_truncate();
/// ```
///
/// A step that fails is passed over; its error counts only if no later step does better.
#[derive(Clone, Default)]
pub struct Chain {
    steps: Vec<Arc<dyn ContextStrategy>>,
    name: String,
}

impl Chain {
    /// Without steps nothing is shortened.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shortens old tool results first.
    pub fn tool_results_first() -> Self {
        Self::new().then(ShortenToolResults::new())
    }

    /// Then lets this model summarize.
    #[must_use]
    pub fn then_summarize(self, model: Arc<dyn ChatModel>) -> Self {
        self.then(Summarize::new(model))
    }

    /// Then leaves out the oldest messages.
    #[must_use]
    pub fn then_truncate(self) -> Self {
        self.then(Truncate::new())
    }

    /// Then does this.
    #[must_use]
    pub fn then(mut self, step: impl ContextStrategy) -> Self {
        if !self.name.is_empty() {
            self.name.push('+');
        }
        self.name.push_str(step.name());
        self.steps.push(Arc::new(step));
        self
    }

    async fn run(&self, input: FitInput<'_>) -> Result<Fitted, ContextError> {
        let mut fitted = Fitted::messages(input.messages);
        let mut tokens = input.tokens.to_vec();
        let mut failure = None;
        for step in &self.steps {
            let step_input = FitInput { messages: &fitted.messages, tokens: &tokens, ..input };
            if step_input.fits() {
                return Ok(fitted);
            }
            match step.fit(step_input).await {
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

impl ContextStrategy for Chain {
    fn name(&self) -> &str {
        &self.name
    }

    fn fit<'a>(&'a self, input: FitInput<'a>) -> BoxFuture<'a, Result<Fitted, ContextError>> {
        Box::pin(self.run(input))
    }

    fn models(&self) -> Vec<&ModelInfo> {
        self.steps.iter().flat_map(|step| step.models()).collect()
    }
}

/// The tokens of messages of which most were counted before.
fn recount(before: FitInput<'_>, messages: &[Arc<Message>]) -> Vec<u64> {
    let sizes = before.tokens.iter().copied();
    let known: HashMap<_, _> = before.messages.iter().map(Arc::as_ptr).zip(sizes).collect();
    messages
        .iter()
        .map(|message| match known.get(&Arc::as_ptr(message)) {
            Some(tokens) => *tokens,
            None => count_message(&Estimate, message),
        })
        .collect()
}

fn join(before: Fitted, next: Fitted) -> Fitted {
    let session: Option<SessionChange> = match (before.session, next.session) {
        (Some(first), Some(second)) => Some(first.then(second)),
        (first, second) => first.or(second),
    };
    let mut usage = before.usage;
    usage += next.usage;
    let cost = match (before.cost, next.cost) {
        // Two currencies have no sum; a cost that is not known is never taken for nothing.
        (Some(first), Some(second)) => first.plus(second).ok(),
        (first, second) => first.or(second),
    };
    let unmetered_calls = before.unmetered_calls + next.unmetered_calls;
    Fitted { messages: next.messages, session, usage, cost, unmetered_calls }
}
