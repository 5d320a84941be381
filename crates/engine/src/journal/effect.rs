//! What may happen, what was begun before, what nobody knows.

use std::sync::Arc;

use provost_agent::journal::{Begun, Effect, ToolEffect};
use provost_core::durable::{
    CompactionStarted, DraftDiscarded, DurableEvent, ToolStarted, TurnStarted,
};
use provost_core::lifecycle::{StepKind, WorkError, plan_hash};
use provost_core::recovery::{EffectClass, Recovery};
use provost_core::{ApprovalRequest, Money, RequestKind, ToolResult};
use provost_failpoint::failpoint;
use serde_json::json;

use super::{OpenStep, RunJournal};
use crate::approval::{self, Standing};
use crate::error::EngineError;
use crate::journal::transaction::StepWrite;

/// The result of a call whose outcome a crash has hidden.
const UNKNOWN_RESULT: &str = "The outcome of this call is unknown: the program was interrupted while it ran. It may or may not \
     have happened. Verify before you repeat it; until somebody has spoken to you, only tools without effects can run.";
/// The result of a call that has to wait.
const RESTRICTED_RESULT: &str = "This call was not run: the outcome of an earlier call is unknown, and until somebody has spoken \
     to you only tools without effects can run.";
/// Asked where nobody knows what came of a call.
const UNKNOWN_HINT: &str =
    "the program was interrupted while this ran: approve to run it again, deny to leave it";

impl RunJournal {
    pub(super) async fn begin_effect(&self, effect: Effect) -> Result<Begun, EngineError> {
        match effect {
            Effect::Model { turn, provider, model, cost_max } => {
                let write = self.begin_model(turn, format!("{provider}/{model}"), cost_max)?;
                failpoint!("model.before_begin");
                self.write(write).await?;
                failpoint!("model.begun");
                Ok(Begun::Go)
            }
            Effect::Compact { turn } => {
                let write = self.begin_compaction(turn)?;
                failpoint!("compaction.before_begin");
                self.write(write).await?;
                failpoint!("compaction.begun");
                Ok(Begun::Go)
            }
            Effect::Tool(effect) => self.begin_tool(*effect).await,
        }
    }

    fn begin_model(
        &self,
        turn: u32,
        name: String,
        cost_max: Option<Money>,
    ) -> Result<StepWrite, EngineError> {
        let mut state = self.lock();
        state.turn = turn;
        let reserved_micros = cost_max.map_or(0, Money::micros);
        let open = state.open.iter_mut().find(|open| open.kind == StepKind::ModelCall);
        let (step, again) = match open {
            Some(open) => {
                open.tries += 1;
                // The try of a lost worker was sent and may have been answered.
                let paid = std::mem::take(&mut open.lost);
                let released = std::mem::replace(&mut open.reserved_micros, reserved_micros);
                (open.step, Some((open.tries, released, if paid { released } else { 0 })))
            }
            None => {
                let step = state.take_step();
                state.open.push(OpenStep {
                    step,
                    kind: StepKind::ModelCall,
                    key: None,
                    class: None,
                    call_id: None,
                    tries: 1,
                    lost: false,
                    reserved_micros,
                    begun: None,
                });
                (step, None)
            }
        };
        let mut write = StepWrite::begin(step, StepKind::ModelCall);
        write.begun = again.is_some();
        write.name = Some(name);
        write.reserved_micros = reserved_micros;
        write.currency = cost_max.map(|cost| cost.currency);
        if let Some((tries, released, estimated)) = again {
            write.released_micros = released;
            write.cost_micros = estimated;
            // Whoever watched the lost try drops what it had shown.
            let discarded = DraftDiscarded { turn, lost_try: tries - 1 };
            write.events.push(DurableEvent::DraftDiscarded(discarded));
        }
        write.events.push(DurableEvent::TurnStarted(TurnStarted { turn }));
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.open_from();
        Ok(write)
    }

    fn begin_compaction(&self, turn: u32) -> Result<StepWrite, EngineError> {
        let mut state = self.lock();
        let open = state.open.iter().find(|open| open.kind == StepKind::Compact);
        let begun = open.map(|open| open.step);
        let step = match begun {
            Some(step) => step,
            None => {
                let step = state.take_step();
                state.open.push(OpenStep {
                    step,
                    kind: StepKind::Compact,
                    key: None,
                    class: None,
                    call_id: None,
                    tries: 1,
                    lost: false,
                    reserved_micros: 0,
                    begun: None,
                });
                step
            }
        };
        let mut write = StepWrite::begin(step, StepKind::Compact);
        write.begun = begun.is_some();
        write.events.push(DurableEvent::CompactionStarted(CompactionStarted { turn }));
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.open_from();
        Ok(write)
    }

    async fn begin_tool(&self, effect: ToolEffect) -> Result<Begun, EngineError> {
        let standing = self.standing(&effect).await?;
        if standing.changed {
            let refused = WorkError::PlanChanged.to_string();
            return Ok(Begun::Settled(ToolResult::error(&effect.call, refused)));
        }
        let open = self.lock().open.iter().find(|open| open.is(&effect)).cloned();
        // A tool that could not say whether it had happened leaves it unknown.
        let lost = open.as_ref().filter(|open| open.lost || effect.unsure);
        let probe = match lost.map(|open| self.recovery(&effect, open, &standing)) {
            None if self.is_restricted_for(effect.class) => {
                return Ok(Begun::Settled(ToolResult::error(&effect.call, RESTRICTED_RESULT)));
            }
            None | Some(Recovery::RunAgain) => false,
            Some(Recovery::Probe) => true,
            Some(Recovery::Surface) => {
                self.lock().restricted = true;
                return Ok(Begun::Settled(ToolResult::error(&effect.call, UNKNOWN_RESULT)));
            }
            Some(Recovery::Park) => {
                let tries = open.as_ref().map_or(0, |open| open.tries);
                let approvers = standing.approvers;
                return Ok(Begun::Ask(ApprovalRequest {
                    approvers,
                    ..self.question(&effect, tries)
                }));
            }
            Some(Recovery::Fail) => return Err(EngineError::effect_unknown(&effect.call.name)),
        };
        let write = self.begin_tool_step(&effect, open.as_ref())?;
        failpoint!("tool.before_begin");
        self.write_together(write).await?;
        failpoint!("tool.begun");
        Ok(if probe { Begun::Probe } else { Begun::Go })
    }

    /// What people have said about a call; most calls need nobody.
    async fn standing(&self, effect: &ToolEffect) -> Result<Standing, EngineError> {
        if effect.approvals.is_empty() {
            return Ok(Standing::default());
        }
        let (lease, effect) = (Arc::clone(&self.lease), effect.clone());
        self.store.read(move |tx| approval::standing(tx, &lease, &effect)).await
    }

    fn recovery(&self, effect: &ToolEffect, open: &OpenStep, standing: &Standing) -> Recovery {
        if standing.repeat_after_try == Some(open.tries) {
            // A person was asked about this very try and said that it may run again.
            return Recovery::RunAgain;
        }
        let class = if effect.unsure { EffectClass::Opaque } else { effect.class };
        class.on_unknown(self.on_unknown)
    }

    fn is_restricted_for(&self, class: EffectClass) -> bool {
        self.lock().restricted && !class.runs_restricted()
    }

    fn question(&self, effect: &ToolEffect, tries: u64) -> ApprovalRequest {
        ApprovalRequest {
            id: self.lock().env.id(),
            kind: RequestKind::EffectUnknown,
            call: effect.call.clone(),
            hint: Some(UNKNOWN_HINT.to_owned()),
            payload: Some(json!({"effect_key": effect.key, "try": tries})),
            policy_revision: effect.policy_revision.as_deref().map(str::to_owned),
            approvers: None,
        }
    }

    fn begin_tool_step(
        &self,
        effect: &ToolEffect,
        again: Option<&OpenStep>,
    ) -> Result<StepWrite, EngineError> {
        let mut state = self.lock();
        let step = again.map_or_else(|| state.take_step(), |open| open.step);
        state.open.retain(|open| open.step != step);
        let begun = state.env.now();
        state.open.push(OpenStep {
            step,
            kind: StepKind::ToolCall,
            key: Some(effect.key.clone()),
            class: Some(effect.class),
            call_id: Some(effect.call.id.clone()),
            tries: again.map_or(0, |open| open.tries) + 1,
            lost: false,
            reserved_micros: 0,
            begun: Some(begun),
        });
        let mut write = StepWrite::begin(step, StepKind::ToolCall);
        write.begun = again.is_some();
        write.effect_key = Some(effect.key.to_string());
        write.effect_class = Some(effect.class);
        write.input_hash = Some(plan_hash(&effect.arguments));
        write.call_id = Some(effect.call.id.clone());
        write.name = Some(effect.call.name.clone());
        let (call_id, name) = (effect.call.id.clone(), effect.call.name.clone());
        write.events.push(DurableEvent::ToolStarted(ToolStarted { call_id, name, step }));
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.open_from();
        Ok(write)
    }
}

impl OpenStep {
    fn is(&self, effect: &ToolEffect) -> bool {
        self.key.as_ref() == Some(&effect.key)
    }
}
