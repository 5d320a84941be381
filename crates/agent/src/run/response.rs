//! Applies a model response: text, tool calls or the typed output.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{
    ContentPart, Message, Money, Role, StopReason, Timestamp, ToolCall, ToolResult,
};
use provost_model::ModelResponse;

use super::call::SeenCallIds;
use super::{CallState, LastResponse, OutputMode, Phase, Run, TransitionError, UsageTotals};

/// The result of a call whose arguments did not arrive.
const CUT_RESULT: &str =
    "This call was not run: the answer was cut off before its arguments were complete.";

impl Run {
    /// Makes a response fit the conversation: each call gets a unique id, and a final response at a limit loses its
    /// calls.
    pub fn normalize_response(&mut self, response: &mut ModelResponse, now: Timestamp) {
        let message = &mut response.message;
        message.created_at = now;
        message.role = Role::Assistant;
        if matches!(self.phase, Phase::Model { without_tools: true }) {
            message.parts.retain(
                |part| !matches!(part, ContentPart::ToolCall(call) if !self.is_output_call(call)),
            );
        }
        self.assign_call_ids(message);
    }

    /// Applies a normalized response.
    pub(super) fn apply_response(
        &mut self,
        response: ModelResponse,
        cost: Option<Money>,
        now: Timestamp,
    ) -> Result<Arc<Message>, TransitionError> {
        let Phase::Model { without_tools } = self.phase else {
            return Err(TransitionError::Phase("a model answer"));
        };
        self.turns += 1;
        self.usage_unknown |= !response.usage_known;
        self.add_usage(&UsageTotals::from_call(response.usage, cost));
        let message = Arc::new(response.message);
        self.last_response = LastResponse {
            text: message.text(),
            reasoning: message.reasoning().map(|reasoning| reasoning.text.as_str()).collect(),
            stop: Some(response.stop),
            response_id: response.response_id,
        };
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        if calls.is_empty() {
            self.on_text(&message, response.stop, without_tools, now);
        } else {
            self.on_tool_calls(&message, calls, response.stop, now);
        }
        Ok(message)
    }

    /// Returns true for the call that carries the typed output.
    pub(super) fn is_output_call(&self, call: &ToolCall) -> bool {
        matches!(&self.config.output, OutputMode::Tool(name) if *name == call.name)
    }

    /// Gives every call an id that is unique in the whole conversation: the id links the result to the call and is
    /// part of the effect key. Some providers leave it empty, repeat it, or count from zero in every response.
    fn assign_call_ids(&mut self, message: &mut Message) {
        let mut known = self.call_ids.take().unwrap_or_else(|| self.collect_call_ids());
        let mut place = 0;
        for part in &mut message.parts {
            let ContentPart::ToolCall(call) = part else { continue };
            place += 1;
            if call.id.is_empty() || known.contains(&call.id) {
                call.id = self.fresh_call_id(place, &known);
            }
            known.insert(call.id.clone());
        }
        self.call_ids = SeenCallIds::from(known);
    }

    /// Returns the ids of all calls. Compaction may have removed this run's messages from the context, so both lists
    /// are searched.
    fn collect_call_ids(&self) -> HashSet<String> {
        let messages = self.context.iter().chain(&self.new_messages);
        messages.flat_map(|message| message.tool_calls()).map(|call| call.id.clone()).collect()
    }

    /// Returns an id that no other call has and no other run of the session generates.
    fn fresh_call_id(&self, place: usize, known: &HashSet<String>) -> String {
        let run = self.id.to_string();
        let run = run.get(run.len() - 10..).unwrap_or(&run);
        let mut id = format!("call_{run}_{}_{place}", self.turns + 1);
        while known.contains(&id) {
            id.push('x');
        }
        id
    }

    /// Ends a turn without tool calls: ends the run, or checks the output.
    fn on_text(
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
            return self.end(StopReason::Limit, self.final_answer_limit(), Vec::new(), now);
        }
        if self.config.output == OutputMode::Text {
            return self.end(stop, None, Vec::new(), now);
        }
        self.phase = Phase::Output {
            raw: self.last_response.text.clone(),
            call_id: None,
            calls: Vec::new(),
        };
    }

    /// Starts the tool calls of a turn, or takes the call of the output tool as the output.
    fn on_tool_calls(
        &mut self,
        message: &Arc<Message>,
        calls: Vec<ToolCall>,
        stop: StopReason,
        now: Timestamp,
    ) {
        self.push(Arc::clone(message));
        if let OutputMode::Tool(name) = &self.config.output
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
        match self.exceeded_by_calls(calls.len()) {
            Some(reached) => self.on_round_limit(reached, calls, now),
            None => self.begin_round(calls, stop, now),
        }
    }

    /// Starts a round of tool calls. A call whose arguments were cut off gets an error result.
    pub(super) fn begin_round(&mut self, calls: Vec<ToolCall>, stop: StopReason, now: Timestamp) {
        let mut calls: Vec<CallState> = calls.into_iter().map(CallState::new).collect();
        let cut =
            matches!(stop, StopReason::MaxTokens | StopReason::ContentFilter | StopReason::Refusal);
        // The last call of a truncated response may lack its arguments; running it without them could do something
        // else.
        if let (true, Some(last)) = (cut, calls.last_mut())
            && (last.call.arguments.trim().is_empty() || last.call.parse_arguments().is_err())
        {
            last.result = Some(ToolResult::error(&last.call, CUT_RESULT));
        }
        self.phase = Phase::Tools { calls };
        self.finish_tool_round(now);
    }
}
