//! Answers fed back into the machine.

use std::collections::HashSet;
use std::sync::Arc;

use provost_core::{
    ApprovalDecision, ApprovalId, ApprovalRequest, LimitReached, Message, Money, Part, Role,
    StopReason, Timestamp, ToolCall, ToolResult,
};
use provost_model::ModelResponse;

use super::{
    Answer, AtLimit, CallState, LastAnswer, LimitDecision, LimitQuestion, OutputPlan, Phase, Run,
};
use crate::context::Fitted;

/// Said to the model when it must answer from what it knows.
const LIMIT_NOTICE: &str = "The limit for this task is reached. Give your best final answer now from what you already know, \
     without calling tools, and say what is missing.";
/// The result of a call that a limit prevented.
const LIMIT_RESULT: &str = "This call was not run: the limit for this task is reached.";
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
    /// The model answered. `cost` is `None` if its price is not known.
    pub fn model_answered(
        &mut self,
        response: ModelResponse,
        cost: Option<Money>,
        now: Timestamp,
    ) -> Result<Arc<Message>, FeedError> {
        let Phase::Model { without_tools } = self.phase else {
            return Err(FeedError::Phase("a model answer"));
        };
        self.turns += 1;
        self.usage += response.usage;
        self.add_cost(cost);
        let mut message = response.message;
        message.created_at = now;
        message.role = Role::Assistant;
        if without_tools {
            message
                .parts
                .retain(|part| !matches!(part, Part::ToolCall(call) if !self.is_answer(call)));
        }
        self.name_calls(&mut message);
        let message = Arc::new(message);
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

    fn add_cost(&mut self, cost: Option<Money>) {
        match (cost, self.cost) {
            (None, _) => self.unpriced_calls += 1,
            (Some(cost), None) => self.cost = Some(cost),
            // Two currencies in one run cannot be added: count the call as unpriced rather than wrongly.
            (Some(cost), Some(sum)) => match sum.plus(cost) {
                Ok(sum) => self.cost = Some(sum),
                Err(_) => self.unpriced_calls += 1,
            },
        }
    }

    /// True for the call that carries the typed answer.
    fn is_answer(&self, call: &ToolCall) -> bool {
        matches!(&self.config.output, OutputPlan::Tool(name) if *name == call.name)
    }

    /// Every call needs an id of its own; some providers leave it empty or repeat it.
    fn name_calls(&self, message: &mut Message) {
        let mut seen = HashSet::new();
        let mut number = 0;
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part {
                number += 1;
                if call.id.is_empty() || seen.contains(&call.id) {
                    call.id = format!("call_{}_{number}", self.turns);
                }
                seen.insert(call.id.clone());
            }
        }
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
            None => {
                self.phase = Phase::Tools { calls: calls.into_iter().map(CallState::new).collect() }
            }
        }
    }

    fn reach_round_limit(&mut self, reached: LimitReached, calls: Vec<ToolCall>, now: Timestamp) {
        match self.config.at_limit {
            AtLimit::Stop => self.stop_with_pending(reached, calls, now),
            AtLimit::FinalAnswer => self.ask_final_answer(reached, &calls, None, now),
            AtLimit::Ask => {
                let question = LimitQuestion { reached, calls, rounds: self.rounds };
                self.phase = Phase::AtLimit { question };
            }
        }
    }

    fn stop_with_pending(&mut self, reached: LimitReached, calls: Vec<ToolCall>, now: Timestamp) {
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

    fn refuse_calls(&mut self, calls: &[ToolCall], text: &str, now: Timestamp) {
        if !calls.is_empty() {
            self.push_results(
                calls.iter().map(|call| ToolResult::error(call, text)).collect(),
                now,
            );
        }
    }

    fn push_results(&mut self, results: Vec<ToolResult>, now: Timestamp) {
        self.push(Arc::new(Message::results(results).at(now)));
    }

    /// Somebody said what happens at a limit.
    pub fn limit_decided(
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
                self.phase = if calls.is_empty() {
                    Phase::Model { without_tools: false }
                } else {
                    Phase::Tools { calls: calls.into_iter().map(CallState::new).collect() }
                };
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

    /// Hooks have seen a call and left it like this.
    pub fn tool_prepared(&mut self, call_id: &str, effective: ToolCall) -> Result<(), FeedError> {
        self.call_mut(call_id)?.effective = Some(effective);
        Ok(())
    }

    /// A call has its result. The turn goes on when all have one.
    pub fn tool_finished(&mut self, result: ToolResult, now: Timestamp) -> Result<(), FeedError> {
        let call = self.call_mut(&result.call_id.clone())?;
        call.result = Some(result);
        self.close_round(now);
        Ok(())
    }

    /// The model sent arguments the tool refuses.
    pub fn argument_fault(&mut self, tool: &str) {
        *self.argument_faults.entry(tool.to_owned()).or_default() += 1;
    }

    /// A call needs a person's decision before it can run.
    pub fn tool_needs_approval(&mut self, request: ApprovalRequest) -> Result<(), FeedError> {
        let call = self.call_mut(&request.call.id.clone())?;
        call.open = Some(request);
        Ok(())
    }

    /// A person decided.
    pub fn decide(&mut self, id: ApprovalId, decision: ApprovalDecision) -> Result<(), FeedError> {
        let Phase::Tools { calls } = &mut self.phase else {
            return Err(FeedError::UnknownApproval(id));
        };
        let asked = |request: &mut ApprovalRequest| request.id == id;
        let answered = calls.iter_mut().filter(|call| call.waits()).find_map(|call| {
            let request = call.open.take_if(asked)?;
            Some((call, request))
        });
        let (call, request) = answered.ok_or(FeedError::UnknownApproval(id))?;
        call.answers.push(Answer { request, decision });
        Ok(())
    }

    /// The questions that wait for a person.
    pub fn open_approvals(&self) -> Vec<&ApprovalRequest> {
        match &self.phase {
            Phase::Tools { calls } => calls
                .iter()
                .filter(|call| call.waits())
                .filter_map(|call| call.open.as_ref())
                .collect(),
            _ => Vec::new(),
        }
    }

    fn call_mut(&mut self, call_id: &str) -> Result<&mut CallState, FeedError> {
        let Phase::Tools { calls } = &mut self.phase else {
            return Err(FeedError::UnknownCall(call_id.to_owned()));
        };
        calls
            .iter_mut()
            .find(|state| state.call.id == call_id && state.result.is_none())
            .ok_or_else(|| FeedError::UnknownCall(call_id.to_owned()))
    }

    /// When every call has its result: one tool message, in call order.
    fn close_round(&mut self, now: Timestamp) {
        let Phase::Tools { calls } = &mut self.phase else {
            return;
        };
        if calls.iter().any(|call| call.result.is_none()) {
            return;
        }
        let results: Vec<ToolResult> =
            calls.iter_mut().filter_map(|call| call.result.take()).collect();
        self.rounds += 1;
        self.tool_calls += u32::try_from(results.len()).unwrap_or(u32::MAX);
        self.phase = Phase::Model { without_tools: false };
        self.push_results(results, now);
        for message in std::mem::take(&mut self.after_results) {
            self.push(message);
        }
    }

    /// The answer was checked: `Err` says what is wrong with it. True if it goes back to the model.
    pub fn output_checked(
        &mut self,
        check: Result<(), String>,
        now: Timestamp,
    ) -> Result<bool, FeedError> {
        let Phase::Output { raw, call_id, calls } = &self.phase else {
            return Err(FeedError::Phase("the check of an answer"));
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
            let stop = self.last.stop.unwrap_or(StopReason::EndTurn);
            let stop = match stop {
                _ if self.last_word.is_some() => StopReason::Limit,
                StopReason::ToolUse => StopReason::EndTurn,
                stop => stop,
            };
            self.end(stop, self.exhausted(), Vec::new(), now);
            if let Phase::Done(ending) = &mut self.phase {
                ending.output = Some(raw);
            }
            return Ok(false);
        }
        self.output_faults += 1;
        if call_id.is_none() {
            let hint = match &self.config.output {
                OutputPlan::Tool(name) => {
                    format!("{answer_text} Call the tool `{name}` with the answer.")
                }
                _ => answer_text,
            };
            self.push(Arc::new(Message::user(hint).at(now)));
        }
        self.phase = Phase::Model { without_tools: self.last_word.is_some() };
        Ok(true)
    }

    /// How many more wrong answers are sent back.
    pub fn output_retries_left(&self) -> u32 {
        self.config.output_retries.saturating_sub(self.output_faults)
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
