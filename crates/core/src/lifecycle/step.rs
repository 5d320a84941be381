//! The steps of a run's journal, and what happens to the open ones when their worker is lost.

use std::time::Duration;

use crate::recovery::{EffectClass, OnUnknown, Recovery};
use crate::text::string_enum::words;
use crate::usage::limits::CRASHES_MAX;

words! {
    /// What a step does.
    StepKind, "a step kind" {
        /// Takes waiting messages in.
        DrainInput = "drain_input",
        /// Asks a model.
        ModelCall = "model_call",
        /// Runs a tool.
        ToolCall = "tool_call",
        /// Asks a person.
        Approval = "approval",
        /// Starts a child run.
        Spawn = "spawn",
        /// Waits for a child run.
        AwaitChild = "await_child",
        /// Waits for a moment.
        Sleep = "sleep",
        /// Makes the conversation fit.
        Compact = "compact",
        /// Sends an answer out.
        Deliver = "deliver",
        /// Keeps the state of the run.
        Checkpoint = "checkpoint",
        /// Ends the run.
        Finish = "finish",
        /// Takes in something that is no effect.
        Note = "note",
    }
}

words! {
    /// Where a step stands.
    StepState, "a step state" {
        /// Decided and not begun.
        Planned = "planned",
        /// Begun: its effect may have happened.
        Started = "started",
        /// Its outcome is recorded.
        Committed = "committed",
        /// It failed for good.
        Failed = "failed",
        /// It was begun by a worker that is gone: nobody knows yet.
        Unknown = "unknown",
    }
}

impl StepKind {
    /// The effect class of the kinds that have one of their own; a tool and a channel say theirs.
    pub const fn own_class(self) -> Option<EffectClass> {
        match self {
            Self::ToolCall | Self::Deliver => None,
            // A lost model call is made again and paid twice; nothing else happens.
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

/// An open step of a run whose worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenStep {
    /// What it does.
    pub kind: StepKind,
    /// Where it stands.
    pub state: StepState,
    /// What a repeat would do.
    pub class: EffectClass,
}

/// What is known about a run whose worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loss {
    /// True if somebody asked to cancel it.
    pub cancel_requested: bool,
    /// Crashes in a row before this one.
    pub crashes: u32,
    /// True if a step was committed since the last crash.
    pub progressed: bool,
    /// True if the worker is proven dead; one that may be alive gets one more lease to notice that it is out.
    pub proven_dead: bool,
    /// What is done about opaque effects.
    pub on_unknown: OnUnknown,
}

impl Loss {
    /// Crashes in a row, this one included.
    pub const fn crashes_now(self) -> u32 {
        if self.progressed { 1 } else { self.crashes.saturating_add(1) }
    }
}

/// What happens to a run whose worker is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryAction {
    /// It goes on after a wait.
    Requeue {
        /// The wait.
        after: Duration,
        /// True if it may only look and not act until the unknown outcome is cleared.
        restricted: bool,
    },
    /// A person is asked whether an effect happened.
    Park,
    /// It ends: an effect may have happened and its policy is to fail then.
    Fail,
    /// It ends as it was asked to.
    Cancel,
    /// It crashes again and again: an operator must look.
    CrashLoop,
}

/// What happens to a run whose worker is lost, by its open steps.
///
/// `grace` is one more lease. With several open steps the most careful answer counts.
pub fn at_expiry(open: &[OpenStep], loss: Loss, grace: Duration) -> ExpiryAction {
    if loss.cancel_requested {
        return ExpiryAction::Cancel;
    }
    if loss.crashes_now() >= CRASHES_MAX {
        return ExpiryAction::CrashLoop;
    }
    let careful =
        |action: ExpiryAction, step: &OpenStep| action.most_careful(step.at_expiry(loss, grace));
    open.iter().fold(ExpiryAction::AT_ONCE, careful)
}

impl OpenStep {
    fn at_expiry(&self, loss: Loss, grace: Duration) -> ExpiryAction {
        let after = if loss.proven_dead { Duration::ZERO } else { grace };
        if !matches!(self.state, StepState::Started | StepState::Unknown) {
            return ExpiryAction::AT_ONCE;
        }
        match self.kind {
            StepKind::ModelCall | StepKind::Compact => {
                ExpiryAction::Requeue { after, restricted: false }
            }
            StepKind::ToolCall => match self.class.on_unknown(loss.on_unknown) {
                Recovery::RunAgain | Recovery::Probe => {
                    ExpiryAction::Requeue { after, restricted: false }
                }
                Recovery::Surface => ExpiryAction::Requeue { after, restricted: true },
                Recovery::Park => ExpiryAction::Park,
                Recovery::Fail => ExpiryAction::Fail,
            },
            // The delivery becomes unknown by itself; the run does not wait for it. The rest is in our own database.
            _ => ExpiryAction::AT_ONCE,
        }
    }
}

impl ExpiryAction {
    /// It goes on at once.
    pub const AT_ONCE: Self = Self::Requeue { after: Duration::ZERO, restricted: false };

    fn most_careful(self, other: Self) -> Self {
        use ExpiryAction as A;
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
