//! The next step of a run.

use std::sync::Arc;

use provost_core::recovery::EffectKey;
use provost_core::{
    ApprovalDecision, ApprovalRequest, ApprovalRequestKind, LimitReached, RunId, StopReason,
    Timestamp, ToolCall,
};

use serde_json::Value;

use super::{ApprovalAnswer, Completion, LimitAction, LimitContext, Phase, Run};

/// The next step that the driver must execute.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Call the model, then apply [`super::JournalEntry::ModelResponded`].
    CallModel {
        /// 1 for the first call of the run.
        turn: u32,
        /// True for the final response at a limit: no tools are offered.
        without_tools: bool,
    },
    /// Run these calls, then apply [`super::JournalEntry::ToolFinished`] or
    /// [`super::JournalEntry::ApprovalNeeded`] for each.
    CallTools(Vec<ToolCallRequest>),
    /// Hand off to another agent, then apply [`super::JournalEntry::HandoffApplied`].
    Handoff {
        /// The target agent.
        to: Arc<str>,
    },
    /// Let the program decide at a limit, then apply [`super::JournalEntry::LimitDecided`].
    AskLimit(LimitContext),
    /// Validate the output, then apply [`super::JournalEntry::OutputChecked`].
    CheckOutput(String),
    /// Nothing can continue before these are decided: store the run, then apply [`super::JournalEntry::ApprovalDecided`].
    AwaitApprovals(Vec<ApprovalRequest>),
    /// The run has ended.
    Done,
}

/// One call to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallRequest {
    /// The call, after hooks changed it if they have run.
    pub call: ToolCall,
    /// The model call that requested it: 1 for the first of the run.
    pub turn: u32,
    /// Its index among the calls of that response, from 0.
    pub index: usize,
    /// True if hooks have already run.
    pub prepared: bool,
    /// Number of earlier calls to this tool with invalid arguments.
    pub argument_faults: u32,
    /// The decisions of people about this exact call.
    pub answers: Vec<ApprovalAnswer>,
}

impl ToolCallRequest {
    /// Idempotency key: the same whenever this exact call is repeated. It does not use the model's call id, which may
    /// repeat.
    pub fn effect_key(&self, run_id: RunId) -> EffectKey {
        EffectKey::new(run_id, u64::from(self.turn), self.index as u64)
    }

    /// Returns the decision whether the call may run. `None` if none was requested before the call.
    pub fn decision(&self) -> Option<&ApprovalDecision> {
        decision_for(&self.answers, None, None)
    }
}

/// Returns the decision of the request with this hint and payload. `None` if there is none. A request with a hint comes
/// from the running tool.
pub(crate) fn decision_for<'a>(
    answers: &'a [ApprovalAnswer],
    hint: Option<&str>,
    payload: Option<&Value>,
) -> Option<&'a ApprovalDecision> {
    let same = |answer: &&ApprovalAnswer| {
        answer.request.hint.as_deref() == hint && answer.request.payload.as_ref() == payload
    };
    answers.iter().find(same).map(|answer| &answer.decision)
}

/// Returns true if a call has waited for these runs and the wait has ended.
pub(crate) fn has_waited(answers: &[ApprovalAnswer], wait: &Value) -> bool {
    answers.iter().any(|ApprovalAnswer { request, .. }| {
        request.kind == ApprovalRequestKind::Runs && request.payload.as_ref() == Some(wait)
    })
}

impl Run {
    /// Returns the next step. Without an entry applied in between, a second call returns the same step.
    pub fn next_step(&mut self, now: Timestamp) -> Step {
        if let Phase::Model { without_tools } = self.phase
            && let Some(reached) = self.exceeded_limit(now)
        {
            self.on_hard_limit(reached, without_tools, now);
        }
        match &self.phase {
            Phase::Model { without_tools } => {
                Step::CallModel { turn: self.turns + 1, without_tools: *without_tools }
            }
            Phase::Tools { calls } => {
                let ready: Vec<_> =
                    calls.iter().enumerate().filter(|(_, call)| call.can_run()).collect();
                if ready.is_empty() {
                    return Step::AwaitApprovals(
                        calls.iter().filter_map(|call| call.pending_approval.clone()).collect(),
                    );
                }
                let ticket = |(index, state): (usize, &super::CallState)| ToolCallRequest {
                    turn: self.turns,
                    index,
                    call: state.prepared_call.clone().unwrap_or_else(|| state.call.clone()),
                    prepared: state.prepared_call.is_some(),
                    argument_faults: self
                        .argument_faults
                        .get(&state.call.name)
                        .copied()
                        .unwrap_or(0),
                    answers: state.answers.clone(),
                };
                Step::CallTools(ready.into_iter().map(ticket).collect())
            }
            Phase::Handoff { to, .. } => Step::Handoff { to: Arc::clone(to) },
            Phase::AtLimit { context: question } => Step::AskLimit(question.clone()),
            Phase::Output { raw, .. } => Step::CheckOutput(raw.clone()),
            Phase::Done(_) => Step::Done,
        }
    }

    /// Ends the run at a limit on tokens, cost or time, because no further request may start. Asks the program instead
    /// if it decides about limits.
    fn on_hard_limit(&mut self, reached: LimitReached, last_word: bool, now: Timestamp) {
        if self.config.on_limit == LimitAction::Ask && !last_word {
            self.phase = Phase::AtLimit {
                context: LimitContext { reached, calls: Vec::new(), tool_rounds: self.tool_rounds },
            };
            return;
        }
        self.end(StopReason::Limit, Some(reached), Vec::new(), now);
    }

    /// Ends the run.
    pub(super) fn end(
        &mut self,
        stop: StopReason,
        limit: Option<LimitReached>,
        pending_calls: Vec<ToolCall>,
        at: Timestamp,
    ) {
        self.phase = Phase::Done(Completion { stop, limit, pending_calls, output: None, at });
    }
}
