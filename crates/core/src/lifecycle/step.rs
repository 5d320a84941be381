//! Steps of a run's journal, and the recovery of steps that are in flight when their worker is lost.

use std::time::Duration;

use crate::lifecycle::InvalidTransition;
use crate::recovery::{EffectClass, EffectRecovery, UnknownEffectPolicy};
use crate::text::string_enum::string_enum;
use crate::usage::limits::CRASHES_MAX;

string_enum! {
    /// Kind of a step.
    StepKind, "a step kind" {
        /// Adds pending inputs to the conversation.
        DrainInput = "drain_input",
        /// Calls a model.
        ModelCall = "model_call",
        /// Calls a tool.
        ToolCall = "tool_call",
        /// Requests an approval.
        Approval = "approval",
        /// Starts a child run.
        Spawn = "spawn",
        /// Waits for a child run.
        AwaitChild = "await_child",
        /// Waits until a point in time.
        Sleep = "sleep",
        /// Compacts the context so that it fits the model.
        Compact = "compact",
        /// Delivers a response.
        Deliver = "deliver",
        /// Stores the state of the run.
        Checkpoint = "checkpoint",
        /// Ends the run.
        Finish = "finish",
        /// Records a fact that has no effect.
        Note = "note",
    }
}

string_enum! {
    /// State of a step.
    StepState, "a step state" {
        /// Planned and not started.
        Planned = "planned",
        /// Started; its effect may have happened.
        Started = "started",
        /// Its outcome is recorded.
        Committed = "committed",
        /// It failed permanently.
        Failed = "failed",
        /// Its worker was lost after the start; the outcome is unknown.
        Unknown = "unknown",
    }
}

string_enum! {
    /// Transition of a step.
    StepTransition, "a step event" {
        /// Its effect is about to start, for the first time or again.
        Begun = "begun",
        /// Its outcome is recorded.
        Committed = "committed",
        /// Its run ends before the step has an outcome.
        Abandoned = "abandoned",
        /// Its worker is lost.
        WorkerLost = "worker_lost",
        /// It requests an approval before it has any effect, and starts again after the decision.
        Reset = "reset",
    }
}

impl StepTransition {
    /// Returns the state after the transition, which does not depend on the state before it.
    pub const fn target(self) -> StepState {
        match self {
            Self::Begun => StepState::Started,
            Self::Committed => StepState::Committed,
            Self::Abandoned => StepState::Failed,
            Self::WorkerLost => StepState::Unknown,
            Self::Reset => StepState::Planned,
        }
    }
}

impl StepState {
    /// Returns the state after a transition.
    pub const fn apply(self, transition: StepTransition) -> Result<Self, InvalidTransition> {
        use StepTransition as E;
        match (self, transition) {
            (
                Self::Planned | Self::Started | Self::Unknown,
                E::Begun | E::Committed | E::Abandoned,
            )
            | (Self::Started, E::WorkerLost | E::Reset) => Ok(transition.target()),
            _ => Err(InvalidTransition {
                machine: "step",
                from: self.as_str(),
                transition: transition.as_str(),
                terminal: !self.is_open(),
            }),
        }
    }

    /// Returns the states that permit a transition.
    pub fn sources(transition: StepTransition) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|state| state.apply(transition).is_ok()).collect()
    }

    /// Returns true if the step has no outcome yet.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Planned | Self::Started | Self::Unknown)
    }
}

impl StepKind {
    /// Returns the fixed effect class of this kind of step, or `None` if the tool or the channel determines it.
    pub const fn own_class(self) -> Option<EffectClass> {
        match self {
            Self::ToolCall | Self::Deliver => None,
            // A lost model call is repeated and paid for twice; it has no other effect.
            Self::ModelCall | Self::Compact => Some(EffectClass::Keyed),
            Self::DrainInput
            | Self::Approval
            | Self::Spawn
            | Self::AwaitChild
            | Self::Sleep
            | Self::Checkpoint
            | Self::Finish
            | Self::Note => Some(EffectClass::Transactional),
        }
    }
}

/// A step of a run that was in flight when the worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightStep {
    /// Kind of the step.
    pub kind: StepKind,
    /// State of the step.
    pub state: StepState,
    /// Effect class of the step.
    pub class: EffectClass,
}

/// Facts about a run whose worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostWorkerContext {
    /// True if cancellation of the run was requested.
    pub cancel_requested: bool,
    /// Number of consecutive crashes before this one.
    pub crashes: u32,
    /// True if a step was committed since the previous crash.
    pub progressed: bool,
    /// True if the worker is known to be dead. A worker that may be alive gets the grace period to notice that it
    /// lost its lease.
    pub confirmed_dead: bool,
    /// Policy for opaque effects with an unknown outcome.
    pub on_unknown: UnknownEffectPolicy,
}

impl LostWorkerContext {
    /// Returns the number of consecutive crashes, including this one. Progress since the previous crash resets it to
    /// 1.
    pub const fn consecutive_crashes(self) -> u32 {
        if self.progressed { 1 } else { self.crashes.saturating_add(1) }
    }
}

/// Action for a run whose lease expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseExpiryAction {
    /// Requeue the run.
    Requeue {
        /// Delay before it can be claimed.
        after: Duration,
        /// True if the turn is restricted to observing tools until the unknown outcome is resolved.
        restricted: bool,
    },
    /// Park the run and ask a person whether an effect happened.
    Park,
    /// Fail the run, because an effect may have happened and the policy is to fail.
    Fail,
    /// Cancel the run, as requested.
    Cancel,
    /// Park the run for an operator, because it crashes repeatedly.
    CrashLoop,
}

/// Chooses the action for a run whose lease expired, from its in-flight steps.
///
/// `grace` is the delay for a worker that may be alive. If several steps are in flight, the most cautious action
/// applies.
pub fn on_lease_expired(
    open: &[InFlightStep],
    loss: LostWorkerContext,
    grace: Duration,
) -> LeaseExpiryAction {
    if loss.cancel_requested {
        return LeaseExpiryAction::Cancel;
    }
    if loss.consecutive_crashes() >= CRASHES_MAX {
        return LeaseExpiryAction::CrashLoop;
    }
    let careful = |action: LeaseExpiryAction, step: &InFlightStep| {
        action.most_cautious(step.on_lease_expired(loss, grace))
    };
    open.iter().fold(LeaseExpiryAction::REQUEUE_NOW, careful)
}

impl InFlightStep {
    /// Chooses the action for this step alone.
    fn on_lease_expired(&self, loss: LostWorkerContext, grace: Duration) -> LeaseExpiryAction {
        let after = if loss.confirmed_dead { Duration::ZERO } else { grace };
        if !matches!(self.state, StepState::Started | StepState::Unknown) {
            return LeaseExpiryAction::REQUEUE_NOW;
        }
        match self.kind {
            StepKind::ModelCall | StepKind::Compact => {
                LeaseExpiryAction::Requeue { after, restricted: false }
            }
            StepKind::ToolCall => match self.class.on_unknown(loss.on_unknown) {
                EffectRecovery::Retry | EffectRecovery::Probe => {
                    LeaseExpiryAction::Requeue { after, restricted: false }
                }
                EffectRecovery::ReportToModel => {
                    LeaseExpiryAction::Requeue { after, restricted: true }
                }
                EffectRecovery::AskPerson => LeaseExpiryAction::Park,
                EffectRecovery::FailRun => LeaseExpiryAction::Fail,
            },
            // A delivery becomes unknown by its own rules, and the run does not wait for it. All other kinds commit
            // in our own database.
            _ => LeaseExpiryAction::REQUEUE_NOW,
        }
    }
}

impl LeaseExpiryAction {
    /// Requeue without delay or restriction.
    pub const REQUEUE_NOW: Self = Self::Requeue { after: Duration::ZERO, restricted: false };

    /// Returns the more cautious of two actions: cancel, crash loop, fail, park, then requeue with the longer delay.
    fn most_cautious(self, other: Self) -> Self {
        use LeaseExpiryAction as A;
        match (self, other) {
            (A::Cancel, _) | (_, A::Cancel) => A::Cancel,
            (A::CrashLoop, _) | (_, A::CrashLoop) => A::CrashLoop,
            (A::Fail, _) | (_, A::Fail) => A::Fail,
            (A::Park, _) | (_, A::Park) => A::Park,
            (
                A::Requeue { after, restricted },
                A::Requeue { after: other_after, restricted: other_restricted },
            ) => A::Requeue {
                after: after.max(other_after),
                restricted: restricted || other_restricted,
            },
        }
    }
}

#[cfg(test)]
mod tests;
