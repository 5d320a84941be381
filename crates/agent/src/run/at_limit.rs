//! What happens when a limit is reached with calls waiting.

use std::sync::Arc;

use provost_core::{LimitReached, Message, StopReason, Timestamp, ToolCall, ToolResult};

use super::{AtLimit, FeedError, LimitDecision, LimitQuestion, Phase, Run};

/// Said to the model when it must answer from what it knows.
const LIMIT_NOTICE: &str = "The limit for this task is reached. Give your best final answer now from what you already \
     know, without calling tools, and say what is missing.";
/// The result of a call that a limit prevented.
const LIMIT_RESULT: &str = "This call was not run: the limit for this task is reached.";

impl Run {
    pub(super) fn reach_round_limit(
        &mut self,
        reached: LimitReached,
        calls: Vec<ToolCall>,
        now: Timestamp,
    ) {
        match self.config.at_limit {
            AtLimit::Stop => self.stop_with_pending(reached, calls, now),
            AtLimit::FinalAnswer => self.ask_final_answer(reached, &calls, None, now),
            AtLimit::Ask => {
                let question = LimitQuestion { reached, calls, rounds: self.rounds };
                self.phase = Phase::AtLimit { question };
            }
        }
    }

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

    fn ask_final_answer(
        &mut self,
        reached: LimitReached,
        calls: &[ToolCall],
        message: Option<String>,
        now: Timestamp,
    ) {
        self.last_word = Some(reached);
        self.refuse_calls(calls, LIMIT_RESULT, now);
        let notice = message.unwrap_or_else(|| LIMIT_NOTICE.to_owned());
        self.push(Arc::new(Message::user(notice).at(now)));
        self.phase = Phase::Model { without_tools: true };
    }

    /// Somebody said what happens at a limit.
    pub(super) fn limit_decided(
        &mut self,
        decision: LimitDecision,
        now: Timestamp,
    ) -> Result<(), FeedError> {
        let Phase::AtLimit { question } = &self.phase else {
            return Err(FeedError::Phase("a decision at a limit"));
        };
        let LimitQuestion { reached, calls, .. } = question.clone();
        match decision {
            LimitDecision::Extend { message } => {
                self.extend(now);
                match self.last.stop {
                    Some(stop) if !calls.is_empty() => self.begin_round(calls, stop, now),
                    _ => self.phase = Phase::Model { without_tools: false },
                }
                if let Some(text) = message {
                    self.say_next(text, now);
                }
            }
            LimitDecision::ExtendWithoutCalls { result, message } => {
                self.extend(now);
                self.refuse_calls(&calls, result.as_deref().unwrap_or(LIMIT_RESULT), now);
                self.phase = Phase::Model { without_tools: false };
                if let Some(text) = message {
                    self.say_next(text, now);
                }
            }
            LimitDecision::FinalAnswer { message } if !calls.is_empty() => {
                self.ask_final_answer(reached, &calls, message, now);
            }
            LimitDecision::FinalAnswer { .. } | LimitDecision::Stop => {
                self.stop_with_pending(reached, calls, now);
            }
        }
        Ok(())
    }

    /// A user-side message for the next model call: now if the conversation allows it, else after the results.
    fn say_next(&mut self, text: String, now: Timestamp) {
        let message = Arc::new(Message::user(text).at(now));
        match &self.phase {
            Phase::Tools { .. } => self.after_results.push(message),
            _ => self.push(message),
        }
    }
}
