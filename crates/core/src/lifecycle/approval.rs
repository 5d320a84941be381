//! Approval requests: permitted decisions, expiry, and the default when no decision arrives in time.
//!
//! Invariant: the first decision wins, a decision applies only to the exact plan that was shown, and every request
//! ends.

use std::time::Duration;

use serde_json::Value;

use crate::execution_policy::CommandApproval;
use crate::hash::{canonical_json, sha256_hex};
use crate::lifecycle::{InvalidTransition, RequestError};
use crate::text::string_enum::string_enum;
use crate::usage::limits::{
    APPROVAL_EXPIRY_DEFAULT, APPROVAL_EXPIRY_MAX, USER_QUESTION_EXPIRY_DEFAULT,
};

string_enum! {
    /// Subject of an approval request.
    ApprovalKind, "an approval kind" {
        /// Whether a run may start.
        Start = "start",
        /// Whether one exact tool call may run.
        Tool = "tool",
        /// Whether an effect happened before a crash.
        EffectUnknown = "effect_unknown",
        /// A question of the agent, answered with text.
        Question = "question",
        /// Whether the budget may be raised.
        BudgetRaise = "budget_raise",
        /// Whether a plan is acceptable.
        Plan = "plan",
    }
}

string_enum! {
    /// State of an approval request.
    ApprovalState, "an approval state" {
        /// No decision yet.
        Pending = "pending",
        /// Approved.
        Approved = "approved",
        /// Denied.
        Denied = "denied",
        /// No decision arrived in time; the timeout action applies.
        Expired = "expired",
        /// The run no longer needs a decision.
        Cancelled = "cancelled",
        /// Answered with text.
        Answered = "answered",
    }
}

string_enum! {
    /// Transition of an approval request.
    ApprovalTransition, "an approval event" {
        /// A person approves.
        Approve = "approve",
        /// A person denies.
        Deny = "deny",
        /// A person answers with text.
        Answer = "answer",
        /// The request expires.
        Expire = "expire",
        /// The run has ended.
        Cancel = "cancel",
    }
}

string_enum! {
    /// Decision that applies when an approval request expires.
    #[derive(Default)]
    ApprovalTimeoutAction as "Fallback", "a fallback" {
        /// Deny.
        #[default]
        Deny = "deny",
        /// Approve if the command is on the agent's allowlist, otherwise deny.
        Allowlist = "allowlist",
        /// Approve.
        Full = "full",
    }
}

string_enum! {
    /// Set of calls that an approval covers.
    #[derive(Default, PartialOrd, Ord)]
    GrantScope as "Grant", "a grant" {
        /// Only this call.
        #[default]
        Once = "once",
        /// Repetitions of the call in the same run.
        Run = "run",
        /// Repetitions of the call in the same session.
        Session = "session",
        /// All later repetitions of the call with exactly the same arguments.
        Always = "always",
    }
}

impl ApprovalState {
    /// Returns the state after a transition. Fails if the state does not permit it.
    pub const fn apply(self, event: ApprovalTransition) -> Result<Self, InvalidTransition> {
        match (self, event) {
            (Self::Pending, ApprovalTransition::Approve) => Ok(Self::Approved),
            (Self::Pending, ApprovalTransition::Deny) => Ok(Self::Denied),
            (Self::Pending, ApprovalTransition::Answer) => Ok(Self::Answered),
            (Self::Pending, ApprovalTransition::Expire) => Ok(Self::Expired),
            (Self::Pending, ApprovalTransition::Cancel) => Ok(Self::Cancelled),
            _ => Err(InvalidTransition {
                machine: "approval",
                from: self.as_str(),
                transition: event.as_str(),
                terminal: true,
            }),
        }
    }

    /// Returns true if the request is decided or closed.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Pending)
    }
}

/// Result of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalResult {
    /// The decision was recorded; this is the new state.
    Applied(ApprovalState),
    /// The request was already decided; this earlier state remains.
    AlreadyDecided(ApprovalState),
}

impl ApprovalKind {
    /// Returns true if `event` is a possible decision for this kind of request. A question accepts a text or a
    /// denial; the other kinds accept an approval or a denial, and an unknown effect also accepts a text.
    pub const fn accepts(self, event: ApprovalTransition) -> bool {
        match event {
            ApprovalTransition::Approve => !matches!(self, Self::Question),
            ApprovalTransition::Answer => matches!(self, Self::Question | Self::EffectUnknown),
            ApprovalTransition::Deny | ApprovalTransition::Expire | ApprovalTransition::Cancel => {
                true
            }
        }
    }

    /// Applies a decision to a request of this kind. The first decision wins; a later one returns the recorded state.
    pub fn resolve(
        self,
        state: ApprovalState,
        event: ApprovalTransition,
    ) -> Result<ApprovalResult, RequestError> {
        if !self.accepts(event) {
            let problem = format!("`{event}` is no answer to a question of kind `{self}`");
            let fix = if self == Self::Question { "answer in words" } else { "approve or deny" };
            return Err(RequestError::invalid("answer", problem, fix));
        }
        Ok(state
            .apply(event)
            .map_or(ApprovalResult::AlreadyDecided(state), ApprovalResult::Applied))
    }

    /// Returns how long a request stays open: `asked` or the default of its kind, with an upper bound. A
    /// non-interactive request expires at once, even if `asked` is set.
    pub fn expiry(self, interactive: bool, asked: Option<Duration>) -> Duration {
        if !interactive {
            return Duration::ZERO;
        }
        let default = match self {
            Self::Question => USER_QUESTION_EXPIRY_DEFAULT,
            _ => APPROVAL_EXPIRY_DEFAULT,
        };
        asked.unwrap_or(default).min(APPROVAL_EXPIRY_MAX)
    }

    /// Returns the timeout action that applies to this kind of request. A timeout never repeats an effect that may
    /// have happened and never raises a budget.
    pub const fn fallback(self, wanted: ApprovalTimeoutAction) -> ApprovalTimeoutAction {
        match self {
            Self::Start | Self::Tool | Self::Plan => wanted,
            Self::EffectUnknown | Self::BudgetRaise | Self::Question => ApprovalTimeoutAction::Deny,
        }
    }
}

impl ApprovalTimeoutAction {
    /// Returns true if the timeout approves the request. `on_list` is true if the command is on the agent's
    /// allowlist.
    pub const fn allows(self, on_list: bool) -> bool {
        match self {
            Self::Deny => false,
            Self::Allowlist => on_list,
            Self::Full => true,
        }
    }
}

impl GrantScope {
    /// Returns true if an earlier approval with this scope makes a new request unnecessary.
    pub const fn covers_later_calls(self, ask: CommandApproval) -> bool {
        !matches!(self, Self::Once) && !matches!(ask, CommandApproval::Always)
    }
}

/// Returns the hash that binds an approval to a plan: the SHA-256 of its canonical JSON.
pub fn plan_hash(plan: &Value) -> String {
    sha256_hex(canonical_json(plan).as_bytes())
}

/// Returns an error if `plan` is not the approved plan.
pub fn check_plan(approved_hash: &str, plan: &Value) -> Result<(), RequestError> {
    if plan_hash(plan) == approved_hash { Ok(()) } else { Err(RequestError::ApprovalMismatch) }
}

#[cfg(test)]
mod tests;
