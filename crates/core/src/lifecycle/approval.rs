//! Questions to a person: what may be answered, by when, and what counts if nobody answers.
//!
//! Invariant: the first answer wins, an answer is good for the exact plan that was shown, and every question ends.

use std::time::Duration;

use serde_json::Value;

use crate::execution_policy::Ask;
use crate::hash::{canonical_json, sha256_hex};
use crate::lifecycle::{Illegal, WorkError};
use crate::text::string_enum::words;
use crate::usage::limits::{APPROVAL_EXPIRY_DEFAULT, APPROVAL_EXPIRY_MAX, QUESTION_EXPIRY_DEFAULT};

words! {
    /// What is asked.
    ApprovalKind, "an approval kind" {
        /// May this run begin?
        Start = "start",
        /// May this exact call run?
        Tool = "tool",
        /// Did this effect happen before the crash?
        EffectUnknown = "effect_unknown",
        /// A question of the agent.
        Question = "question",
        /// May more money be spent?
        BudgetRaise = "budget_raise",
        /// Is this plan good?
        Plan = "plan",
    }
}

words! {
    /// Where a question stands.
    ApprovalState, "an approval state" {
        /// Nobody has answered.
        Pending = "pending",
        /// Yes.
        Approved = "approved",
        /// No.
        Denied = "denied",
        /// Nobody answered in time; the fallback counts.
        Expired = "expired",
        /// The run no longer needs an answer.
        Cancelled = "cancelled",
        /// An answer in words.
        Answered = "answered",
    }
}

words! {
    /// What happens to a question.
    ApprovalEvent, "an approval event" {
        /// Somebody says yes.
        Approve = "approve",
        /// Somebody says no.
        Deny = "deny",
        /// Somebody answers in words.
        Answer = "answer",
        /// Its time is over.
        Expire = "expire",
        /// Its run has ended.
        Cancel = "cancel",
    }
}

words! {
    /// What counts when nobody answers.
    #[derive(Default)]
    Fallback, "a fallback" {
        /// No.
        #[default]
        Deny = "deny",
        /// Yes if the command is on the agent's list.
        Allowlist = "allowlist",
        /// Yes.
        Full = "full",
    }
}

words! {
    /// How far a yes reaches.
    #[derive(Default, PartialOrd, Ord)]
    Grant, "a grant" {
        /// This one call.
        #[default]
        Once = "once",
        /// The same call again in this run.
        Run = "run",
        /// The same call again in this session.
        Session = "session",
        /// The same call, with exactly these arguments, from now on.
        Always = "always",
    }
}

impl ApprovalState {
    /// The state after an event.
    pub const fn next(self, event: ApprovalEvent) -> Result<Self, Illegal> {
        match (self, event) {
            (Self::Pending, ApprovalEvent::Approve) => Ok(Self::Approved),
            (Self::Pending, ApprovalEvent::Deny) => Ok(Self::Denied),
            (Self::Pending, ApprovalEvent::Answer) => Ok(Self::Answered),
            (Self::Pending, ApprovalEvent::Expire) => Ok(Self::Expired),
            (Self::Pending, ApprovalEvent::Cancel) => Ok(Self::Cancelled),
            _ => Err(Illegal {
                machine: "approval",
                from: self.as_str(),
                event: event.as_str(),
                terminal: true,
            }),
        }
    }

    /// True if it is settled.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending)
    }
}

/// What an answer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// It counts; the question is now this.
    Applied(ApprovalState),
    /// It came too late; this was recorded before and counts.
    Recorded(ApprovalState),
}

impl ApprovalKind {
    /// Is this an answer to this kind of question? A question in words takes words or a refusal; the others yes or no.
    pub const fn takes(self, event: ApprovalEvent) -> bool {
        match event {
            ApprovalEvent::Approve => !matches!(self, Self::Question),
            ApprovalEvent::Answer => matches!(self, Self::Question | Self::EffectUnknown),
            ApprovalEvent::Deny | ApprovalEvent::Expire | ApprovalEvent::Cancel => true,
        }
    }

    /// Answers a question of this kind: the first answer wins, a later one is told what was recorded.
    pub fn resolve(
        self,
        state: ApprovalState,
        event: ApprovalEvent,
    ) -> Result<Resolution, WorkError> {
        if !self.takes(event) {
            let problem = format!("`{event}` is no answer to a question of kind `{self}`");
            let fix = if self == Self::Question { "answer in words" } else { "approve or deny" };
            return Err(WorkError::invalid("answer", problem, fix));
        }
        Ok(state.next(event).map_or(Resolution::Recorded(state), Resolution::Applied))
    }

    /// How long the question stays open. Where nobody can answer it is settled at once, whatever was asked for.
    pub fn expiry(self, interactive: bool, asked: Option<Duration>) -> Duration {
        if !interactive {
            return Duration::ZERO;
        }
        let default = match self {
            Self::Question => QUESTION_EXPIRY_DEFAULT,
            _ => APPROVAL_EXPIRY_DEFAULT,
        };
        asked.unwrap_or(default).min(APPROVAL_EXPIRY_MAX)
    }

    /// The fallback that counts. Silence never repeats an effect that may have happened, and never spends more money.
    pub const fn fallback(self, wanted: Fallback) -> Fallback {
        match self {
            Self::Start | Self::Tool | Self::Plan => wanted,
            Self::EffectUnknown | Self::BudgetRaise | Self::Question => Fallback::Deny,
        }
    }
}

impl Fallback {
    /// Does silence mean yes?
    pub const fn allows(self, on_list: bool) -> bool {
        match self {
            Self::Deny => false,
            Self::Allowlist => on_list,
            Self::Full => true,
        }
    }
}

impl Grant {
    /// Does an earlier yes make the next question unnecessary?
    pub const fn silences(self, ask: Ask) -> bool {
        !matches!(self, Self::Once) && !matches!(ask, Ask::Always)
    }
}

/// What an approval is bound to: the hash of the canonical plan.
pub fn plan_hash(plan: &Value) -> String {
    sha256_hex(canonical_json(plan).as_bytes())
}

/// Refuses a plan that is not the one that was approved.
pub fn check_plan(approved_hash: &str, plan: &Value) -> Result<(), WorkError> {
    if plan_hash(plan) == approved_hash { Ok(()) } else { Err(WorkError::PlanChanged) }
}

#[cfg(test)]
mod tests;
