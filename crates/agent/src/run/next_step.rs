//! What happens next.

use std::sync::Arc;

use provost_core::recovery::EffectKey;
use provost_core::{
    ApprovalDecision, ApprovalRequest, LimitReached, RequestKind, RunId, StopReason, Timestamp,
    ToolCall,
};

use serde_json::Value;

use super::{Answer, AtLimit, Ending, LimitQuestion, Phase, Run};

/// What the driver must do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model, then apply [`super::Feed::ModelAnswered`].
    CallModel {
        /// 1 for the first call of the run.
        turn: u32,
        /// True for the last word at a limit: no tools are offered.
        without_tools: bool,
    },
    /// Run these calls, then apply [`super::Feed::ToolFinished`] or [`super::Feed::ApprovalNeeded`] for each.
    CallTools(Vec<CallTicket>),
    /// Let another agent go on, then apply [`super::Feed::HandedOff`].
    HandOff {
        /// Which one.
        to: Arc<str>,
    },
    /// Ask what to do at a limit, then apply [`super::Feed::LimitDecided`].
    AskLimit(LimitQuestion),
    /// Check the answer, then apply [`super::Feed::OutputChecked`].
    CheckOutput(String),
    /// Nothing can go on before these are decided: store the run, then apply [`super::Feed::ApprovalDecided`].
    Wait(Vec<ApprovalRequest>),
    /// The run is over.
    Done,
}

/// One call to run.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTicket {
    /// The call; as hooks left it, if they have seen it.
    pub call: ToolCall,
    /// The model call that made it: 1 for the first of the run.
    pub turn: u32,
    /// Its place among the calls of that answer, from 0.
    pub index: usize,
    /// True if hooks have already seen it.
    pub prepared: bool,
    /// How often the model has sent wrong arguments to this tool before.
    pub faults: u32,
    /// What people have answered about this exact call.
    pub answers: Vec<Answer>,
}

impl CallTicket {
    /// What is the same whenever this very call is made again. Ours, because a model may use an id twice.
    pub fn effect_key(&self, run_id: RunId) -> EffectKey {
        EffectKey::new(run_id, u64::from(self.turn), self.index as u64)
    }

    /// Whether it may run at all, if a person was asked that.
    pub fn decision(&self) -> Option<&ApprovalDecision> {
        answer_to(&self.answers, None, None)
    }
}

/// The answer to a question; one with a hint was asked by the running tool.
pub(crate) fn answer_to<'a>(
    answers: &'a [Answer],
    hint: Option<&str>,
    payload: Option<&Value>,
) -> Option<&'a ApprovalDecision> {
    let same = |answer: &&Answer| {
        answer.request.hint.as_deref() == hint && answer.request.payload.as_ref() == payload
    };
    answers.iter().find(same).map(|answer| &answer.decision)
}

/// True if a call has waited for this, and the wait is over.
pub(crate) fn has_waited(answers: &[Answer], wait: &Value) -> bool {
    answers.iter().any(|Answer { request, .. }| {
        request.kind == RequestKind::Runs && request.payload.as_ref() == Some(wait)
    })
}

impl Run {
    /// Decides what happens next. Calling it again without feeding an answer gives the same step.
    pub fn next_step(&mut self, now: Timestamp) -> Step {
        if let Phase::Model { without_tools } = self.phase
            && let Some(reached) = self.spent(now)
        {
            self.reach_hard_limit(reached, without_tools, now);
        }
        match &self.phase {
            Phase::Model { without_tools } => {
                Step::CallModel { turn: self.turns + 1, without_tools: *without_tools }
            }
            Phase::Tools { calls } => {
                let ready: Vec<_> =
                    calls.iter().enumerate().filter(|(_, call)| call.can_run()).collect();
                if ready.is_empty() {
                    return Step::Wait(calls.iter().filter_map(|call| call.open.clone()).collect());
                }
                let ticket = |(index, state): (usize, &super::CallState)| CallTicket {
                    turn: self.turns,
                    index,
                    call: state.effective.clone().unwrap_or_else(|| state.call.clone()),
                    prepared: state.effective.is_some(),
                    faults: self.argument_faults.get(&state.call.name).copied().unwrap_or(0),
                    answers: state.answers.clone(),
                };
                Step::CallTools(ready.into_iter().map(ticket).collect())
            }
            Phase::HandOff { to, .. } => Step::HandOff { to: Arc::clone(to) },
            Phase::AtLimit { question } => Step::AskLimit(question.clone()),
            Phase::Output { raw, .. } => Step::CheckOutput(raw.clone()),
            Phase::Done(_) => Step::Done,
        }
    }

    /// Tokens, money or time are used up: no further request may start.
    fn reach_hard_limit(&mut self, reached: LimitReached, last_word: bool, now: Timestamp) {
        if self.config.at_limit == AtLimit::Ask && !last_word {
            self.phase = Phase::AtLimit {
                question: LimitQuestion { reached, calls: Vec::new(), rounds: self.rounds },
            };
            return;
        }
        self.end(StopReason::Limit, Some(reached), Vec::new(), now);
    }

    pub(super) fn end(
        &mut self,
        stop: StopReason,
        limit: Option<LimitReached>,
        pending_calls: Vec<ToolCall>,
        at: Timestamp,
    ) {
        self.phase = Phase::Done(Ending { stop, limit, pending_calls, output: None, at });
    }
}
