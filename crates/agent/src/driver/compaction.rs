//! Keeping the conversation within the model's context, before every model call.

use std::sync::Arc;

use provost_core::{Compaction, EventKind, ToolDef, Usage};

use super::Driver;
use crate::agent::ContextPolicy;
use crate::context::{
    Calibration, ContextError, Estimate, FitInput, Fitted, count_message, count_system,
    count_tools, repair,
};
use crate::error::Error;
use crate::journal::Effect;
use crate::run::Feed;

/// How much smaller a conversation is made after the provider itself said that it is too long.
const TOO_LONG_FACTOR: f64 = 0.7;

/// Estimated tokens of the conversation, counted once per message.
#[derive(Default)]
pub(crate) struct TokenLedger {
    /// Of each message of the context, in order.
    messages: Vec<u64>,
    sum: u64,
    calibration: Calibration,
    /// What the last request was estimated at, to learn from what it really was.
    last_estimate: u64,
}

impl TokenLedger {
    fn forget(&mut self) {
        self.messages.clear();
        self.sum = 0;
    }
}

/// A conversation that is too long.
struct Excess {
    policy: ContextPolicy,
    /// Tokens of what is not conversation.
    fixed: u64,
    /// Tokens that all of it may have, by the estimate.
    budget: u64,
    /// The provider refused it as it is.
    too_long: bool,
}

impl Driver {
    /// Makes the conversation fit if it does not. `too_long` says that the provider refused it as it is.
    pub(super) async fn fit(
        &mut self,
        tools: &[Arc<ToolDef>],
        too_long: bool,
    ) -> Result<bool, Error> {
        match self.excess(tools, too_long) {
            // Boxed, because it is large and rare.
            Some(excess) => Box::pin(self.shorten(excess)).await,
            None => Ok(false),
        }
    }

    /// Looks whether the conversation is too long.
    fn excess(&mut self, tools: &[Arc<ToolDef>], too_long: bool) -> Option<Excess> {
        let policy = self.cx.core.context.clone()?;
        let window = self.cx.model.info().context_window;
        let allowed = policy
            .tokens_max
            .or_else(|| window.map(|window| window.saturating_sub(policy.reserve)));
        if allowed.is_none() && !too_long {
            return None;
        }
        self.count();
        let system = self.system.as_deref().unwrap_or_default();
        let fixed = count_system(&Estimate, system) + count_tools(&Estimate, tools);
        let estimate = fixed + self.ledger.sum;
        self.ledger.last_estimate = estimate;
        // The budget is moved instead of every count: the counts stay what they are.
        let calibration = self.ledger.calibration;
        let mut budget = allowed.map_or(u64::MAX, |allowed| calibration.uncorrected(allowed));
        if too_long {
            budget = budget.min((estimate as f64 * TOO_LONG_FACTOR) as u64);
        }
        (estimate > budget).then_some(Excess { policy, fixed, budget, too_long })
    }

    async fn shorten(&mut self, excess: Excess) -> Result<bool, Error> {
        let Excess { policy, fixed, budget, too_long } = excess;
        self.cx.check_models(policy.strategy.models()).await?;
        let input = FitInput {
            messages: self.run.context(),
            tokens: &self.ledger.messages,
            fixed_tokens: fixed,
            budget,
            now: self.cx.env.now(),
        };
        if let Some(journal) = &self.cx.journal {
            journal.begin(Effect::Compact { turn: self.run.turns() + 1 }).await?;
        }
        match policy.strategy.fit(input).await {
            Ok(fitted) => self.use_fitted(policy.strategy.name(), fitted, fixed).await,
            // A bound that the program set is kept. A model's window is compared with an estimate, so there, and where the
            // model that summarizes failed, the last word is the provider's.
            Err(error @ ContextError::TooLarge { .. })
                if policy.tokens_max.is_some() && !too_long =>
            {
                Err(Error::Context(error))
            }
            Err(error) => {
                let message = format!("the conversation could not be shortened: {error}");
                self.cx.queue.emit(EventKind::Warning { message });
                Ok(false)
            }
        }
    }

    /// Takes a strategy's work over; true if it changed anything.
    async fn use_fitted(
        &mut self,
        strategy: &str,
        mut fitted: Fitted,
        fixed: u64,
    ) -> Result<bool, Error> {
        let messages_before = self.run.context().len();
        let tokens_before = self.ledger.last_estimate;
        let repairs;
        (fitted.messages, repairs) = repair(fitted.messages);
        if repairs > 0 {
            let message = format!(
                "context strategy `{strategy}` left {repairs} broken place(s), which were repaired"
            );
            self.cx.queue.emit(EventKind::Warning { message });
        }
        let unchanged = fitted.session.is_none()
            && fitted.messages.len() == messages_before
            && fitted
                .messages
                .iter()
                .zip(self.run.context())
                .all(|(new, old)| Arc::ptr_eq(new, old));
        // Also where nothing came of it: what the strategy's own model used is used.
        let messages = self.run.pieces(&fitted.messages);
        let Fitted { session, usage, cost, unmetered_calls, .. } = fitted;
        self.feed(Feed::ContextFitted { messages, session, usage, cost, unmetered_calls })?;
        if unchanged {
            return Ok(false);
        }
        self.ledger.forget();
        self.count();
        let compaction = Compaction {
            strategy: strategy.to_owned(),
            messages_before,
            messages_after: self.run.context().len(),
            tokens_before,
            tokens_after: fixed + self.ledger.sum,
        };
        self.ledger.last_estimate = compaction.tokens_after;
        self.cx.hooks.on_compaction(&compaction).await;
        self.cx.queue.emit(EventKind::Compacted(Box::new(compaction)));
        Ok(true)
    }

    /// Learns how far the estimate was off.
    pub(super) fn learn(&mut self, usage: &Usage) {
        if self.cx.core.context.is_some() && usage.input > 0 && self.ledger.last_estimate > 0 {
            self.ledger.calibration.observe(self.ledger.last_estimate, usage.input);
        }
    }

    /// The conversation was replaced from outside: count it anew.
    pub(super) fn recount(&mut self) {
        self.ledger.forget();
    }

    fn count(&mut self) {
        let context = self.run.context();
        for message in &context[self.ledger.messages.len().min(context.len())..] {
            let tokens = count_message(&Estimate, message);
            self.ledger.messages.push(tokens);
            self.ledger.sum += tokens;
        }
    }
}
