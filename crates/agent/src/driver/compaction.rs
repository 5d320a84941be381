//! Keeps the conversation within the model's context window, before every model call.

use std::sync::Arc;

use provost_core::{Compaction, EventKind, ToolDefinition, Usage};

use super::Driver;
use crate::context::{
    CompactionInput, CompactionResult, ContextConfig, ContextError, HeuristicCounter,
    TokenCalibration, count_message, count_system, count_tools, repair,
};
use crate::error::Error;
use crate::journal::Effect;
use crate::run::JournalEntry;

/// Factor for the token budget after the provider itself rejected the conversation as too long.
const OVERFLOW_SHRINK_FACTOR: f64 = 0.7;

/// Estimated tokens of the conversation. Each message is counted once.
#[derive(Default)]
pub(crate) struct ContextTokens {
    /// Tokens of each message of the context, in order.
    messages: Vec<u64>,
    sum: u64,
    calibration: TokenCalibration,
    /// The estimate of the last request, to calibrate with the reported usage.
    last_estimate: u64,
}

impl ContextTokens {
    fn clear(&mut self) {
        self.messages.clear();
        self.sum = 0;
    }
}

/// Strategy and budget for a conversation that exceeds its budget.
struct ContextOverflow {
    policy: ContextConfig,
    /// Estimated tokens of the instructions and tools.
    fixed: u64,
    /// Token budget of the whole request, in estimated tokens.
    budget: u64,
    /// True if the provider rejected the request as too long.
    too_long: bool,
}

impl Driver {
    /// Compacts the conversation if it exceeds its budget. Returns true if that changed it. `too_long` is true if the
    /// provider rejected the request.
    pub(super) async fn compact_context(
        &mut self,
        tools: &[Arc<ToolDefinition>],
        too_long: bool,
    ) -> Result<bool, Error> {
        match self.find_overflow(tools, too_long) {
            // Boxed, because the future is large and rarely needed.
            Some(excess) => Box::pin(self.compact(excess)).await,
            None => Ok(false),
        }
    }

    /// Returns by how much the conversation exceeds its budget. `None` if it fits or there is no limit.
    fn find_overflow(
        &mut self,
        tools: &[Arc<ToolDefinition>],
        too_long: bool,
    ) -> Option<ContextOverflow> {
        let policy = self.cx.definition.context.clone()?;
        let window = self.cx.model.info().context_window;
        let allowed = policy
            .max_tokens
            .or_else(|| window.map(|window| window.saturating_sub(policy.reserve)));
        if allowed.is_none() && !too_long {
            return None;
        }
        self.count();
        let system = self.system.as_deref().unwrap_or_default();
        let fixed = count_system(&HeuristicCounter, system) + count_tools(&HeuristicCounter, tools);
        let estimate = fixed + self.ledger.sum;
        self.ledger.last_estimate = estimate;
        // Corrects the budget instead of every count, so that the counts stay valid.
        let calibration = self.ledger.calibration;
        let mut budget = allowed.map_or(u64::MAX, |allowed| calibration.uncorrected(allowed));
        if too_long {
            budget = budget.min((estimate as f64 * OVERFLOW_SHRINK_FACTOR) as u64);
        }
        (estimate > budget).then_some(ContextOverflow { policy, fixed, budget, too_long })
    }

    /// Calls the strategy and applies its result. Returns true if that changed the conversation. If the strategy fails,
    /// emits a warning and returns false; exceeding a limit that the program set is an error.
    async fn compact(&mut self, excess: ContextOverflow) -> Result<bool, Error> {
        let ContextOverflow { policy, fixed, budget, too_long } = excess;
        self.cx.check_models(policy.strategy.models()).await?;
        let input = CompactionInput {
            messages: self.run.context(),
            tokens: &self.ledger.messages,
            fixed_tokens: fixed,
            budget,
            now: self.cx.env.now(),
        };
        if let Some(journal) = &self.cx.journal {
            journal.begin_effect(Effect::Compact { turn: self.run.turns() + 1 }).await?;
        }
        match policy.strategy.compact(input).await {
            Ok(fitted) => self.apply_compaction(policy.strategy.name(), fitted, fixed).await,
            // A limit that the program set is strict. A model's context window is compared with an estimate, so the
            // request is sent and the provider decides. The same applies if the summarizing model failed.
            Err(error @ ContextError::TooLarge { .. })
                if policy.max_tokens.is_some() && !too_long =>
            {
                Err(Error::Context(error))
            }
            Err(error) => {
                let message = format!("the conversation could not be shortened: {error}");
                self.cx.events.emit(EventKind::Warning { message });
                Ok(false)
            }
        }
    }

    /// Applies the result of a strategy, and emits the event. Returns true if it changed anything.
    async fn apply_compaction(
        &mut self,
        strategy: &str,
        mut fitted: CompactionResult,
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
            self.cx.events.emit(EventKind::Warning { message });
        }
        let unchanged = fitted.session.is_none()
            && fitted.messages.len() == messages_before
            && fitted
                .messages
                .iter()
                .zip(self.run.context())
                .all(|(new, old)| Arc::ptr_eq(new, old));
        // Recorded even if nothing changed, because the strategy's model calls were charged.
        let messages = self.run.diff_context(&fitted.messages);
        let CompactionResult { session, usage, cost, calls_without_usage: unmetered_calls, .. } =
            fitted;
        self.apply_entry(JournalEntry::ContextCompacted {
            messages,
            session,
            usage,
            cost,
            calls_without_usage: unmetered_calls,
        })?;
        if unchanged {
            return Ok(false);
        }
        self.ledger.clear();
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
        self.cx.events.emit(EventKind::Compacted(Box::new(compaction)));
        Ok(true)
    }

    /// Corrects later estimates by the reported usage.
    pub(super) fn calibrate_tokens(&mut self, usage: &Usage) {
        if self.cx.definition.context.is_some() && usage.input > 0 && self.ledger.last_estimate > 0
        {
            self.ledger.calibration.observe(self.ledger.last_estimate, usage.input);
        }
    }

    /// Discards the counts after the conversation was replaced.
    pub(super) fn recount(&mut self) {
        self.ledger.clear();
    }

    /// Counts the tokens of the messages that were not counted yet.
    fn count(&mut self) {
        let context = self.run.context();
        for message in &context[self.ledger.messages.len().min(context.len())..] {
            let tokens = count_message(&HeuristicCounter, message);
            self.ledger.messages.push(tokens);
            self.ledger.sum += tokens;
        }
    }
}
