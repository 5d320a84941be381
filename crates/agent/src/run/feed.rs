//! What is fed into the machine at any time: messages, another context, the end.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{ApprovalId, Message, Money, StopReason, Timestamp, ToolCall, ToolResult};
use provost_model::ModelResponse;
use serde_json::{Map, Value};

use super::{Phase, Run, UsageTotals};
use crate::context::Fitted;

/// The result of a call that was under way when the run was stopped.
const INTERRUPTED_RESULT: &str = "This call was interrupted before it gave a result.";

/// A feed that does not fit where the run stands: a defect of the driver, or a decision for the wrong question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// No call with this id waits for a result.
    #[error("call `{0}` does not wait for a result")]
    UnknownCall(String),
    /// No question with this id waits for an answer.
    #[error("approval `{0}` does not wait for a decision")]
    UnknownApproval(ApprovalId),
    /// This answer belongs to another phase.
    #[error("the run does not wait for {0} now")]
    Phase(&'static str),
}

impl Run {
    pub(super) fn refuse_calls(&mut self, calls: &[ToolCall], text: &str, now: Timestamp) {
        if !calls.is_empty() {
            self.push_results(
                calls.iter().map(|call| ToolResult::error(call, text)).collect(),
                now,
            );
        }
    }

    pub(super) fn push_results(&mut self, results: Vec<ToolResult>, now: Timestamp) {
        self.push(Arc::new(Message::results(results).at(now)));
    }

    /// A message from the user's side while the run is under way. A run that had ended by itself goes on.
    pub(super) fn user_said(&mut self, message: Arc<Message>) {
        match &self.phase {
            Phase::Tools { .. } => self.after_results.push(message),
            Phase::Done(_) => {
                self.push(message);
                self.phase = Phase::Model { without_tools: false };
            }
            _ => self.push(message),
        }
    }

    /// A hook changed the conversation for this and the following calls; the stored session stays as it is.
    pub(super) fn context_changed(&mut self, messages: Vec<Arc<Message>>) {
        self.context = messages;
        self.mirrors_session = false;
    }

    /// The conversation was made to fit.
    pub(super) fn context_fitted(&mut self, fitted: Fitted) {
        self.add_compaction(fitted.usage, fitted.cost, fitted.unmetered_calls);
        self.context = fitted.messages;
        let Some(update) = fitted.session else { return };
        if self.mirrors_session {
            let from_unsaved = update.pop.min(self.unsaved.add.len());
            self.unsaved.add.truncate(self.unsaved.add.len() - from_unsaved);
            self.unsaved.pop += update.pop - from_unsaved;
        }
        // Where the context is no longer the stored tail, counting from its end would take out the wrong messages. Leaving them
        // is harmless: a session is read from its last summary on.
        self.unsaved.add.extend(update.add);
        self.mirrors_session = true;
    }

    /// The run ends for now and waits for decisions; the time until it goes on does not count.
    pub(super) fn suspended(&mut self, state: Map<String, Value>, now: Timestamp) {
        self.state = state;
        self.suspended_at = Some(now);
    }

    /// True if it waits for decisions or has just got them.
    pub fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }

    /// The run goes on after it was suspended.
    pub(super) fn resumed(&mut self, now: Timestamp) {
        if let Some(since) = self.suspended_at.take() {
            let away = now.as_millis().saturating_sub(since.as_millis()).max(0);
            self.baseline.at = Timestamp::from_millis(self.baseline.at.as_millis() + away);
        }
    }

    /// The calls that have no result yet.
    pub fn open_calls(&self) -> HashSet<String> {
        match &self.phase {
            Phase::Tools { calls } => calls
                .iter()
                .filter(|call| call.result.is_none())
                .map(|call| call.call.id.clone())
                .collect(),
            _ => HashSet::new(),
        }
    }

    /// The results that calls got without being run, where `since` messages had been produced before.
    pub fn refused_since(&self, since: usize) -> Vec<ToolResult> {
        let pushed = self.produced.get(since..).unwrap_or_default();
        let pushed = pushed.iter().flat_map(|message| message.tool_results());
        let waiting = match &self.phase {
            Phase::Tools { calls } => calls.as_slice(),
            _ => &[],
        };
        let waiting = waiting.iter().filter_map(|call| call.result.as_ref());
        pushed.filter(|result| !result.pending).chain(waiting).cloned().collect()
    }

    /// Messages of the user's side that no model call has seen yet.
    pub fn unheard(&self) -> usize {
        self.after_results.len()
    }

    /// Stops the run where it stands. Open calls get a result that says so; what the model had said is kept.
    pub(super) fn stop(
        &mut self,
        partial: Option<ModelResponse>,
        cost: Option<Money>,
        reason: StopReason,
        now: Timestamp,
    ) {
        if let Some(partial) = partial {
            self.add_used(&UsageTotals::of_call(partial.usage, cost));
            let message = Arc::new(partial.message.at(now));
            if !message.is_empty() {
                self.last.text = message.text();
                self.push(message);
            }
        }
        let limit = match reason {
            StopReason::Limit => self.spent(now).or_else(|| self.wall_spent()),
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
                self.close_round(now);
            }
            Phase::AtLimit { question } => {
                self.refuse_calls(&question.calls, INTERRUPTED_RESULT, now)
            }
            Phase::Output { calls, .. } => self.refuse_calls(&calls, INTERRUPTED_RESULT, now),
            Phase::Model { .. } | Phase::HandOff { .. } => {}
            Phase::Done(ending) => {
                self.phase = Phase::Done(ending);
                return;
            }
        }
        self.end(reason, limit, Vec::new(), now);
    }
}
