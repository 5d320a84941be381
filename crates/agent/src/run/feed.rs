//! Changes that can happen in any phase: messages, a replaced context, suspension and cancellation.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{ApprovalId, Message, Money, StopReason, Timestamp, ToolCall, ToolResult};
use provost_model::ModelResponse;
use serde_json::{Map, Value};

use super::{Phase, Run, UsageTotals};
use crate::context::CompactionResult;

/// The result of a call that was running when the run was stopped.
const INTERRUPTED_RESULT: &str = "This call was interrupted before it gave a result.";

/// An entry that does not fit the run's phase: a bug in the driver, or a decision for an approval that is not
/// pending.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// No unfinished call has this id.
    #[error("call `{0}` does not wait for a result")]
    UnknownCall(String),
    /// No pending approval has this id.
    #[error("approval `{0}` does not wait for a decision")]
    UnknownApproval(ApprovalId),
    /// The entry belongs to another phase.
    #[error("the run does not wait for {0} now")]
    Phase(&'static str),
}

impl Run {
    /// Adds an error result for each call.
    pub(super) fn reject_calls(&mut self, calls: &[ToolCall], text: &str, now: Timestamp) {
        if !calls.is_empty() {
            self.push_results(
                calls.iter().map(|call| ToolResult::error(call, text)).collect(),
                now,
            );
        }
    }

    /// Adds a message with tool results.
    pub(super) fn push_results(&mut self, results: Vec<ToolResult>, now: Timestamp) {
        self.push(Arc::new(Message::results(results).at(now)));
    }

    /// Adds a user message to an active run: now, or after the tool results. A run that ended normally continues.
    pub(super) fn add_user_message(&mut self, message: Arc<Message>) {
        match &self.phase {
            Phase::Tools { .. } => self.queued_messages.push(message),
            Phase::Done(_) => {
                self.push(message);
                self.phase = Phase::Model { without_tools: false };
            }
            _ => self.push(message),
        }
    }

    /// Replaces the context for this and later calls, after a hook or handoff changed it. The stored session stays
    /// unchanged.
    pub(super) fn replace_context(&mut self, messages: Vec<Arc<Message>>) {
        self.context = messages;
        self.context_matches_session = false;
    }

    /// Applies a compaction.
    pub(super) fn apply_compaction(&mut self, fitted: CompactionResult) {
        self.add_compaction_usage(fitted.usage, fitted.cost, fitted.calls_without_usage);
        self.context = fitted.messages;
        let Some(update) = fitted.session else { return };
        if self.context_matches_session {
            let from_unsaved = update.pop.min(self.unsaved.add.len());
            self.unsaved.add.truncate(self.unsaved.add.len() - from_unsaved);
            self.unsaved.pop += update.pop - from_unsaved;
        }
        // If the context is not the stored tail, removing from its end would delete the wrong messages. Keeping them
        // is harmless, because a session is read from its last summary on.
        self.unsaved.add.extend(update.add);
        self.context_matches_session = true;
    }

    /// Suspends the run until decisions arrive. The time until it is resumed does not count towards its time limit.
    pub(super) fn mark_suspended(&mut self, state: Map<String, Value>, now: Timestamp) {
        self.state = state;
        self.suspended_at = Some(now);
    }

    /// Returns true if the run is suspended, or has its decisions but is not resumed yet.
    pub fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }

    /// Resumes a suspended run. The time of the suspension does not count towards its time limit.
    pub(super) fn mark_resumed(&mut self, now: Timestamp) {
        if let Some(since) = self.suspended_at.take() {
            let away = now.as_millis().saturating_sub(since.as_millis()).max(0);
            self.baseline.at = Timestamp::from_millis(self.baseline.at.as_millis() + away);
        }
    }

    /// Returns the ids of the calls that have no result yet.
    pub fn unfinished_calls(&self) -> HashSet<String> {
        match &self.phase {
            Phase::Tools { calls } => calls
                .iter()
                .filter(|call| call.result.is_none())
                .map(|call| call.call.id.clone())
                .collect(),
            _ => HashSet::new(),
        }
    }

    /// Returns the results of calls that did not run. `since` is the number of new messages before them.
    pub fn skipped_results_since(&self, since: usize) -> Vec<ToolResult> {
        let pushed = self.new_messages.get(since..).unwrap_or_default();
        let pushed = pushed.iter().flat_map(|message| message.tool_results());
        let waiting = match &self.phase {
            Phase::Tools { calls } => calls.as_slice(),
            _ => &[],
        };
        let waiting = waiting.iter().filter_map(|call| call.result.as_ref());
        pushed.filter(|result| !result.pending).chain(waiting).cloned().collect()
    }

    /// Returns the number of user messages that no model call has seen yet.
    pub fn queued_message_count(&self) -> usize {
        self.queued_messages.len()
    }

    /// Stops the run and keeps a partial response. Calls without a result get an error result.
    pub(super) fn stop(
        &mut self,
        partial: Option<ModelResponse>,
        cost: Option<Money>,
        reason: StopReason,
        now: Timestamp,
    ) {
        if let Some(partial) = partial {
            self.add_usage(&UsageTotals::from_call(partial.usage, cost));
            let message = Arc::new(partial.message.at(now));
            if !message.is_empty() {
                self.last_response.text = message.text();
                self.push(message);
            }
        }
        let limit = match reason {
            StopReason::Limit => self.exceeded_limit(now).or_else(|| self.wall_limit()),
            _ => None,
        };
        match std::mem::replace(&mut self.phase, Phase::Model { without_tools: false }) {
            Phase::Tools { mut calls } => {
                for state in &mut calls {
                    if state.result.is_none() {
                        state.result = Some(ToolResult::error(&state.call, INTERRUPTED_RESULT));
                    }
                }
                self.phase = Phase::Tools { calls };
                self.finish_tool_round(now);
            }
            Phase::AtLimit { context: question } => {
                self.reject_calls(&question.calls, INTERRUPTED_RESULT, now)
            }
            Phase::Output { calls, .. } => self.reject_calls(&calls, INTERRUPTED_RESULT, now),
            Phase::Model { .. } | Phase::Handoff { .. } => {}
            Phase::Done(ending) => {
                self.phase = Phase::Done(ending);
                return;
            }
        }
        self.end(reason, limit, Vec::new(), now);
    }
}
