//! What is fed into the machine at any time: messages, another context, the end.

use std::sync::Arc;

use provost_core::{ApprovalId, Message, StopReason, Timestamp, ToolCall, ToolResult};
use provost_model::ModelResponse;

use super::{Phase, Run};
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
    pub fn user_said(&mut self, message: Arc<Message>) {
        match &self.phase {
            Phase::Tools { .. } => self.after_results.push(message),
            Phase::Done(_) => {
                self.push(message);
                self.phase = Phase::Model { without_tools: false };
            }
            _ => self.push(message),
        }
    }

    /// The conversation was made to fit, or a hook changed it.
    pub fn context_replaced(&mut self, fitted: Fitted) {
        self.usage += fitted.usage;
        self.context = fitted.messages;
        if let Some(update) = fitted.session {
            let from_unsaved = update.pop.min(self.unsaved.add.len());
            self.unsaved.add.truncate(self.unsaved.add.len() - from_unsaved);
            self.unsaved.pop += update.pop - from_unsaved;
            self.unsaved.add.extend(update.add);
        }
    }

    /// Stops the run where it stands. Open calls get a result that says so; what the model had said is kept.
    pub fn stop(&mut self, partial: Option<ModelResponse>, reason: StopReason, now: Timestamp) {
        if let Some(partial) = partial {
            self.usage += partial.usage;
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
            Phase::Model { .. } => {}
            Phase::Done(ending) => {
                self.phase = Phase::Done(ending);
                return;
            }
        }
        self.end(reason, limit, Vec::new(), now);
    }
}
