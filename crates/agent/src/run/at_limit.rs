//! Continuation of a run whose limit is reached while calls are pending.

use std::sync::Arc;

use provost_core::{LimitReached, Message, StopReason, Timestamp, ToolCall, ToolResult};

use super::{LimitAction, LimitContext, LimitDecision, Phase, Run, TransitionError};

/// The message to the model when it must respond without further tool calls.
const LIMIT_NOTICE: &str = "The limit for this task is reached. Give your best final answer now from what you already \
     know, without calling tools, and say what is missing.";
/// The result of a call that a limit prevented.
const LIMIT_RESULT: &str = "This call was not run: the limit for this task is reached.";

impl Run {
    /// Applies the configured action at a limit of tool rounds or calls.
    pub(super) fn on_round_limit(
        &mut self,
        reached: LimitReached,
        calls: Vec<ToolCall>,
        now: Timestamp,
    ) {
        match self.config.on_limit {
            LimitAction::Stop => self.stop_with_pending(reached, calls, now),
            LimitAction::FinalAnswer => self.request_final_answer(reached, &calls, None, now),
            LimitAction::Ask => {
                let question = LimitContext { reached, calls, tool_rounds: self.tool_rounds };
                self.phase = Phase::AtLimit { context: question };
            }
        }
    }

    /// Ends the run at a limit. The calls stay pending.
    pub(super) fn stop_with_pending(
        &mut self,
        reached: LimitReached,
        calls: Vec<ToolCall>,
        now: Timestamp,
    ) {
        if !calls.is_empty() {
            self.push_results(calls.iter().map(ToolResult::placeholder).collect(), now);
        }
        self.end(StopReason::Limit, Some(reached), calls, now);
    }

    /// Rejects the calls, and asks the model for a final response without tools.
    fn request_final_answer(
        &mut self,
        reached: LimitReached,
        calls: &[ToolCall],
        message: Option<String>,
        now: Timestamp,
    ) {
        self.final_answer_limit = Some(reached);
        self.reject_calls(calls, LIMIT_RESULT, now);
        let notice = message.unwrap_or_else(|| LIMIT_NOTICE.to_owned());
        self.push(Arc::new(Message::user(notice).at(now)));
        self.phase = Phase::Model { without_tools: true };
    }

    /// Applies the program's decision at a limit.
    pub(super) fn apply_limit_decision(
        &mut self,
        decision: LimitDecision,
        now: Timestamp,
    ) -> Result<(), TransitionError> {
        let Phase::AtLimit { context: question } = &self.phase else {
            return Err(TransitionError::Phase("a decision at a limit"));
        };
        let LimitContext { reached, calls, .. } = question.clone();
        match decision {
            LimitDecision::Extend { message } => {
                self.extend_limits(now);
                match self.last_response.stop {
                    Some(stop) if !calls.is_empty() => self.begin_round(calls, stop, now),
                    _ => self.phase = Phase::Model { without_tools: false },
                }
                if let Some(text) = message {
                    self.queue_user_message(text, now);
                }
            }
            LimitDecision::ExtendWithoutCalls { result, message } => {
                self.extend_limits(now);
                self.reject_calls(&calls, result.as_deref().unwrap_or(LIMIT_RESULT), now);
                self.phase = Phase::Model { without_tools: false };
                if let Some(text) = message {
                    self.queue_user_message(text, now);
                }
            }
            LimitDecision::FinalAnswer { message } if !calls.is_empty() => {
                self.request_final_answer(reached, &calls, message, now);
            }
            LimitDecision::FinalAnswer { .. } | LimitDecision::Stop => {
                self.stop_with_pending(reached, calls, now);
            }
        }
        Ok(())
    }

    /// Adds a user message for the next model call: now if the conversation allows it, otherwise after the tool
    /// results.
    fn queue_user_message(&mut self, text: String, now: Timestamp) {
        let message = Arc::new(Message::user(text).at(now));
        match &self.phase {
            Phase::Tools { .. } => self.queued_messages.push(message),
            _ => self.push(message),
        }
    }
}
