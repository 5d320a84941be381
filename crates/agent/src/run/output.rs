//! Validation of the typed output.

use std::sync::Arc;

use provost_core::{Message, StopReason, Timestamp, ToolCall, ToolResult};

use super::{OutputMode, Phase, Run, TransitionError};

impl Run {
    /// Applies the validation of an output: `Err` holds the problem. Returns true if the output is returned to the
    /// model.
    pub(super) fn apply_output_check(
        &mut self,
        check: Result<(), String>,
        now: Timestamp,
    ) -> Result<bool, TransitionError> {
        let Phase::Output { raw, call_id, calls } = &self.phase else {
            return Err(TransitionError::Phase("the check of an answer"));
        };
        let (raw, call_id, calls) = (raw.clone(), call_id.clone(), calls.clone());
        let problem = check.err();
        let answer_text = match &problem {
            None => "The answer is accepted.".to_owned(),
            Some(problem) => {
                format!("The answer is not valid: {problem}. Correct it and answer again.")
            }
        };
        if call_id.is_some() {
            let result = |call: &ToolCall| match (&call_id, &problem) {
                (Some(id), None) if *id == call.id => ToolResult::text(call, answer_text.clone()),
                (Some(id), Some(_)) if *id == call.id => {
                    ToolResult::error(call, answer_text.clone())
                }
                _ => {
                    ToolResult::error(call, "This call was not run: the final answer came with it.")
                }
            };
            self.push_results(calls.iter().map(result).collect(), now);
        }
        if problem.is_none() || self.output_faults >= self.config.output_retries {
            let stop = self.last_response.stop.unwrap_or(StopReason::EndTurn);
            let stop = match stop {
                _ if self.final_answer_limit.is_some() => StopReason::Limit,
                StopReason::ToolUse => StopReason::EndTurn,
                stop => stop,
            };
            self.end(stop, self.final_answer_limit(), Vec::new(), now);
            if let Phase::Done(ending) = &mut self.phase {
                ending.output = Some(raw);
            }
            return Ok(false);
        }
        self.output_faults += 1;
        if call_id.is_none() {
            let hint = match &self.config.output {
                OutputMode::Tool(name) => {
                    format!("{answer_text} Call the tool `{name}` with the answer.")
                }
                _ => answer_text,
            };
            self.push(Arc::new(Message::user(hint).at(now)));
        }
        self.phase = Phase::Model { without_tools: self.final_answer_limit.is_some() };
        Ok(true)
    }

    /// Returns the number of further invalid outputs that are returned to the model.
    pub fn output_retries_left(&self) -> u32 {
        self.config.output_retries.saturating_sub(self.output_faults)
    }
}
