//! The model answered: text, calls, or the typed answer.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{Message, Money, Part, Role, StopReason, Timestamp, ToolCall, ToolResult};
use provost_model::ModelResponse;

use super::call::CallIds;
use super::{CallState, FeedError, LastAnswer, OutputPlan, Phase, Run, UsageTotals};

/// The result of a call whose arguments did not arrive.
const CUT_RESULT: &str =
    "This call was not run: the answer was cut off before its arguments were complete.";

impl Run {
    /// Makes an answer one that this conversation can have: its calls have ids of their own, and a last word has no calls.
    pub fn normalize_response(&mut self, response: &mut ModelResponse, now: Timestamp) {
        let message = &mut response.message;
        message.created_at = now;
        message.role = Role::Assistant;
        if matches!(self.phase, Phase::Model { without_tools: true }) {
            message
                .parts
                .retain(|part| !matches!(part, Part::ToolCall(call) if !self.is_answer(call)));
        }
        self.name_calls(message);
    }

    /// Takes in an answer that was admitted.
    pub(super) fn take_answer(
        &mut self,
        response: ModelResponse,
        cost: Option<Money>,
        now: Timestamp,
    ) -> Result<Arc<Message>, FeedError> {
        let Phase::Model { without_tools } = self.phase else {
            return Err(FeedError::Phase("a model answer"));
        };
        self.turns += 1;
        self.unmetered |= !response.usage_known;
        self.add_used(&UsageTotals::of_call(response.usage, cost));
        let message = Arc::new(response.message);
        self.last = LastAnswer {
            text: message.text(),
            reasoning: message.reasoning().map(|reasoning| reasoning.text.as_str()).collect(),
            stop: Some(response.stop),
            response_id: response.response_id,
        };
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        if calls.is_empty() {
            self.answered_in_text(&message, response.stop, without_tools, now);
        } else {
            self.answered_with_calls(&message, calls, response.stop, now);
        }
        Ok(message)
    }

    /// True for the call that carries the typed answer.
    pub(super) fn is_answer(&self, call: &ToolCall) -> bool {
        matches!(&self.config.output, OutputPlan::Tool(name) if *name == call.name)
    }

    /// Every call needs an id of its own, in the whole conversation: it ties the result to the call and is part of the effect
    /// key. Some providers leave it empty, repeat it, or count from zero in every answer.
    fn name_calls(&mut self, message: &mut Message) {
        let mut known = self.call_ids.take().unwrap_or_else(|| self.collect_call_ids());
        let mut place = 0;
        for part in &mut message.parts {
            let Part::ToolCall(call) = part else { continue };
            place += 1;
            if call.id.is_empty() || known.contains(&call.id) {
                call.id = self.fresh_call_id(place, &known);
            }
            known.insert(call.id.clone());
        }
        self.call_ids = CallIds::from(known);
    }

    /// What this run has produced may have left its context since, so both are looked at.
    fn collect_call_ids(&self) -> HashSet<String> {
        let messages = self.context.iter().chain(&self.produced);
        messages.flat_map(|message| message.tool_calls()).map(|call| call.id.clone()).collect()
    }

    /// An id that no other run of the session makes, and that no call has.
    fn fresh_call_id(&self, place: usize, known: &HashSet<String>) -> String {
        let run = self.id.to_string();
        let run = run.get(run.len() - 10..).unwrap_or(&run);
        let mut id = format!("call_{run}_{}_{place}", self.turns + 1);
        while known.contains(&id) {
            id.push('x');
        }
        id
    }

    fn answered_in_text(
        &mut self,
        message: &Arc<Message>,
        stop: StopReason,
        without_tools: bool,
        now: Timestamp,
    ) {
        if !message.is_empty() {
            self.push(Arc::clone(message));
        }
        if without_tools {
            return self.end(StopReason::Limit, self.exhausted(), Vec::new(), now);
        }
        if self.config.output == OutputPlan::Text {
            return self.end(stop, None, Vec::new(), now);
        }
        self.phase =
            Phase::Output { raw: self.last.text.clone(), call_id: None, calls: Vec::new() };
    }

    fn answered_with_calls(
        &mut self,
        message: &Arc<Message>,
        calls: Vec<ToolCall>,
        stop: StopReason,
        now: Timestamp,
    ) {
        self.push(Arc::clone(message));
        if let OutputPlan::Tool(name) = &self.config.output
            && let Some(answer) = calls.iter().find(|call| call.name == *name)
        {
            let (raw, call_id) = (answer.arguments.clone(), Some(answer.id.clone()));
            self.phase = Phase::Output { raw, call_id, calls };
            return;
        }
        if !self.config.execute_tools {
            self.push_results(calls.iter().map(ToolResult::placeholder).collect(), now);
            return self.end(stop, None, calls, now);
        }
        match self.round_limit(calls.len()) {
            Some(reached) => self.reach_round_limit(reached, calls, now),
            None => self.begin_round(calls, stop, now),
        }
    }

    pub(super) fn begin_round(&mut self, calls: Vec<ToolCall>, stop: StopReason, now: Timestamp) {
        let mut calls: Vec<CallState> = calls.into_iter().map(CallState::new).collect();
        let cut =
            matches!(stop, StopReason::MaxTokens | StopReason::ContentFilter | StopReason::Refusal);
        // The last call of an answer that was cut off may lack its arguments; without them it would mean something else.
        if let (true, Some(last)) = (cut, calls.last_mut())
            && (last.call.arguments.trim().is_empty() || last.call.parse_arguments().is_err())
        {
            last.result = Some(ToolResult::error(&last.call, CUT_RESULT));
        }
        self.phase = Phase::Tools { calls };
        self.close_round(now);
    }
}
