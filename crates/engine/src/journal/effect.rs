//! Starting effects: records each effect before it happens, and decides about effects that an earlier attempt has
//! lost.

use std::sync::Arc;

use provost_agent::journal::{Effect, EffectStart, ToolEffect};
use provost_core::durable::{
    CompactionStarted, DraftDiscarded, DurableEvent, ToolStarted, TurnStarted,
};
use provost_core::lifecycle::{RequestError, StepKind, plan_hash};
use provost_core::recovery::{EffectClass, EffectRecovery};
use provost_core::{ApprovalRequest, ApprovalRequestKind, Money, ToolResult};
use provost_failpoint::failpoint;
use serde_json::json;

use super::{RunJournal, StartedStep};
use crate::approval::{self, ApprovalStatus};
use crate::error::EngineError;
use crate::journal::transaction::StepWrite;

/// Result of a call whose outcome is unknown after a crash.
const UNKNOWN_RESULT: &str = "The outcome of this call is unknown: the program was interrupted while it ran. It may or may not \
     have happened. Verify before you repeat it. Until a user message arrives, only tools without effects can run.";
/// Result of a call that must not run in a restricted turn.
const RESTRICTED_RESULT: &str = "This call was not run: the outcome of an earlier call is unknown. Until a user message \
     arrives, only tools without effects can run.";
/// Hint of the approval request about a call whose outcome is unknown.
const UNKNOWN_HINT: &str =
    "the program was interrupted while this ran: approve to run it again, deny to skip it";

impl RunJournal {
    /// Writes the start of an effect, and decides whether it may be executed: [`EffectStart`]. For an effect that a
    /// lost attempt started, recovery decides.
    pub(super) async fn begin_effect(&self, effect: Effect) -> Result<EffectStart, EngineError> {
        match effect {
            Effect::Model { turn, provider, model, cost_max } => {
                let write = self.start_model_step(turn, format!("{provider}/{model}"), cost_max)?;
                failpoint!("model.before_begin");
                self.write(write).await?;
                failpoint!("model.begun");
                Ok(EffectStart::Proceed)
            }
            Effect::Compact { turn } => {
                let write = self.start_compaction_step(turn)?;
                failpoint!("compaction.before_begin");
                self.write(write).await?;
                failpoint!("compaction.begun");
                Ok(EffectStart::Proceed)
            }
            Effect::Tool(effect) => self.begin_tool(*effect).await,
        }
    }

    /// Registers a model call as in flight and returns the write that starts it with its reservation. A repeated start
    /// settles the reservation of the lost try.
    fn start_model_step(
        &self,
        turn: u32,
        name: String,
        cost_max: Option<Money>,
    ) -> Result<StepWrite, EngineError> {
        let mut state = self.state.lock();
        state.turn = turn;
        let reserved_micros = cost_max.map_or(0, Money::micros);
        let open = state.open.iter_mut().find(|open| open.kind == StepKind::ModelCall);
        let (step, earlier) = match open {
            Some(open) => {
                open.tries += 1;
                // The lost worker sent the earlier request, so it may have been charged.
                let paid = std::mem::take(&mut open.lost);
                let released = std::mem::replace(&mut open.reserved_micros, reserved_micros);
                (open.step, Some((open.tries, released, if paid { released } else { 0 })))
            }
            None => {
                let step = state.take_step();
                state.open.push(StartedStep {
                    step,
                    kind: StepKind::ModelCall,
                    key: None,
                    class: None,
                    call_id: None,
                    tries: 1,
                    lost: false,
                    reserved_micros,
                    started_at: None,
                });
                (step, None)
            }
        };
        let mut write = StepWrite::begin(step, StepKind::ModelCall);
        write.was_started = earlier.is_some();
        write.name = Some(name);
        write.reserved_micros = reserved_micros;
        write.currency = cost_max.map(|cost| cost.currency);
        if let Some((tries, released, estimated)) = earlier {
            write.released_micros = released;
            write.cost_micros = estimated;
            // Clients discard the output of the lost try.
            let discarded = DraftDiscarded { turn, lost_try: tries - 1 };
            write.events.push(DurableEvent::DraftDiscarded(discarded));
        }
        write.events.push(DurableEvent::TurnStarted(TurnStarted { turn }));
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.first_in_flight_step();
        Ok(write)
    }

    /// Registers a compaction as in flight and returns the write that starts it.
    fn start_compaction_step(&self, turn: u32) -> Result<StepWrite, EngineError> {
        let mut state = self.state.lock();
        let open = state.open.iter().find(|open| open.kind == StepKind::Compact);
        let begun = open.map(|open| open.step);
        let step = match begun {
            Some(step) => step,
            None => {
                let step = state.take_step();
                state.open.push(StartedStep {
                    step,
                    kind: StepKind::Compact,
                    key: None,
                    class: None,
                    call_id: None,
                    tries: 1,
                    lost: false,
                    reserved_micros: 0,
                    started_at: None,
                });
                step
            }
        };
        let mut write = StepWrite::begin(step, StepKind::Compact);
        write.was_started = begun.is_some();
        write.events.push(DurableEvent::CompactionStarted(CompactionStarted { turn }));
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.first_in_flight_step();
        Ok(write)
    }

    /// Checks the approval and the recovery of a tool call, and writes its start if it may be executed.
    async fn begin_tool(&self, effect: ToolEffect) -> Result<EffectStart, EngineError> {
        let status = self.approval_status(&effect).await?;
        if status.changed {
            let refused = RequestError::ApprovalMismatch.to_string();
            return Ok(EffectStart::UseResult(ToolResult::error(&effect.call, refused)));
        }
        let open = self.state.lock().open.iter().find(|open| open.matches(&effect)).cloned();
        // A tool that could not determine whether its effect happened also leaves it unknown.
        let lost = open.as_ref().filter(|open| open.lost || effect.outcome_unknown);
        let probe = match lost.map(|open| self.recovery_of(&effect, open, &status)) {
            None if self.is_restricted_for(effect.class) => {
                return Ok(EffectStart::UseResult(ToolResult::error(
                    &effect.call,
                    RESTRICTED_RESULT,
                )));
            }
            None | Some(EffectRecovery::Retry) => false,
            Some(EffectRecovery::Probe) => true,
            Some(EffectRecovery::ReportToModel) => {
                self.state.lock().restricted = true;
                return Ok(EffectStart::UseResult(ToolResult::error(&effect.call, UNKNOWN_RESULT)));
            }
            Some(EffectRecovery::AskPerson) => {
                let tries = open.as_ref().map_or(0, |open| open.tries);
                let approvers = status.approvers;
                return Ok(EffectStart::NeedsApproval(ApprovalRequest {
                    approvers,
                    ..self.unknown_effect_request(&effect, tries)
                }));
            }
            Some(EffectRecovery::FailRun) => {
                return Err(EngineError::effect_unknown(&effect.call.name));
            }
        };
        let write = self.start_tool_step(&effect, open.as_ref())?;
        failpoint!("tool.before_begin");
        self.write_concurrent(write).await?;
        failpoint!("tool.begun");
        Ok(if probe { EffectStart::Probe } else { EffectStart::Proceed })
    }

    /// Returns the status of the approvals of a call. Most calls need none.
    async fn approval_status(&self, effect: &ToolEffect) -> Result<ApprovalStatus, EngineError> {
        if effect.approvals.is_empty() {
            return Ok(ApprovalStatus::default());
        }
        let (lease, effect) = (Arc::clone(&self.lease), effect.clone());
        self.store.read(move |tx| approval::approval_status(tx, &lease, &effect)).await
    }

    /// Returns the recovery action for a call whose earlier try has an unknown outcome.
    fn recovery_of(
        &self,
        effect: &ToolEffect,
        open: &StartedStep,
        status: &ApprovalStatus,
    ) -> EffectRecovery {
        if status.repeat_after_try == Some(open.tries) {
            // A person has approved that exactly this try runs again.
            return EffectRecovery::Retry;
        }
        let class = if effect.outcome_unknown { EffectClass::Opaque } else { effect.class };
        class.on_unknown(self.on_unknown)
    }

    /// Returns true if an outcome is unknown in this turn, so that effects of this class must not be executed.
    fn is_restricted_for(&self, class: EffectClass) -> bool {
        self.state.lock().restricted && !class.allowed_while_restricted()
    }

    /// Creates the request to a person to decide about a call with an unknown outcome.
    fn unknown_effect_request(&self, effect: &ToolEffect, tries: u64) -> ApprovalRequest {
        ApprovalRequest {
            id: self.state.lock().env.id(),
            kind: ApprovalRequestKind::EffectUnknown,
            call: effect.call.clone(),
            hint: Some(UNKNOWN_HINT.to_owned()),
            payload: Some(json!({"effect_key": effect.key, "try": tries})),
            policy_revision: effect.policy_revision.as_deref().map(str::to_owned),
            approvers: None,
        }
    }

    /// Registers a tool call as in flight and returns the write that starts it, or its next try.
    fn start_tool_step(
        &self,
        effect: &ToolEffect,
        earlier: Option<&StartedStep>,
    ) -> Result<StepWrite, EngineError> {
        let mut state = self.state.lock();
        let step = earlier.map_or_else(|| state.take_step(), |open| open.step);
        state.open.retain(|open| open.step != step);
        let started_at = state.env.now();
        state.open.push(StartedStep {
            step,
            kind: StepKind::ToolCall,
            key: Some(effect.key.clone()),
            class: Some(effect.class),
            call_id: Some(effect.call.id.clone()),
            tries: earlier.map_or(0, |open| open.tries) + 1,
            lost: false,
            reserved_micros: 0,
            started_at: Some(started_at),
        });
        let mut write = StepWrite::begin(step, StepKind::ToolCall);
        write.was_started = earlier.is_some();
        write.effect_key = Some(effect.key.clone());
        write.effect_class = Some(effect.class);
        write.input_hash = Some(plan_hash(&effect.arguments));
        write.call_id = Some(effect.call.id.clone());
        write.name = Some(effect.call.name.clone());
        let (call_id, name) = (effect.call.id.clone(), effect.call.name.clone());
        write.events.push(DurableEvent::ToolStarted(ToolStarted { call_id, name, step }));
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.first_in_flight_step();
        Ok(write)
    }
}

impl StartedStep {
    /// Returns true if the step is the one of the effect.
    fn matches(&self, effect: &ToolEffect) -> bool {
        self.key.as_ref() == Some(&effect.key)
    }
}
