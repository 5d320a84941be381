//! May this agent make this call? One pure decision over what the operator declared.
//!
//! A [`Governance`] is everything that counts for one run, read once and compiled, so that a decision is a look into a table.
//! [`Governance::decide`] gives the strictest of all answers: allow, then approval, then deny. What nobody speaks of is denied
//! where it changes anything.
//!
//! Invariant: no answer depends on anything outside the snapshot, a rule of another namespace never counts, and no rule is left
//! out because there are many.
//!
//! ```
//! use provost_core::policy::{Decision, Governance, GovernanceParts, Subject, ToolFacts};
//! use provost_core::resource::OperationClass;
//!
//! let subject = Subject::new("default", "clerk");
//! let governance = Governance::compile(GovernanceParts::new("r1", subject))?;
//! let read = ToolFacts::new("search", &[OperationClass::Read]);
//! let write = ToolFacts::new("post", &[OperationClass::Write]);
//! assert!(matches!(governance.decide(&read, "invoke"), Decision::Allow { .. }));
//! assert!(matches!(governance.decide(&write, "invoke"), Decision::Deny { .. }));
//! # Ok::<_, provost_core::resource::ResourceError>(())
//! ```

mod compile;
mod decide;
mod word;

pub use compile::Governance;
pub use word::canonical;

use crate::contract::{ToolCode, ToolFault};
use crate::execution_policy::ExecPolicy;
use crate::resource::{
    AgentPolicy, AgentRole, Approvers, OperationClass, RiskLevel, ToolPermission, ToolType,
};

/// Capabilities of tools that run commands: for those the exec policy of the run counts.
pub const COMMAND_CAPABILITIES: [&str; 3] = ["exec", "shell", "command"];

/// Who asks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Where the run belongs.
    pub namespace: String,
    /// The agent.
    pub agent: String,
    /// The roles that it was given; one that does not exist denies everything.
    pub roles: Vec<String>,
    /// Tools that its author lists. They count where no rule speaks, and never against one.
    pub allowed_tools: Vec<String>,
    /// The task's name, for policies with a scope.
    pub task: String,
    /// The system's name, for policies with a scope.
    pub system: String,
}

impl Subject {
    /// An agent without roles.
    pub fn new(namespace: impl Into<String>, agent: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), agent: agent.into(), ..Self::default() }
    }
}

/// What a governance is compiled from. It may hold more than what counts for the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GovernanceParts {
    /// What changes whenever any part changes; approvals are bound to it.
    pub revision: String,
    /// Who asks.
    pub subject: Subject,
    /// Roles.
    pub roles: Vec<AgentRole>,
    /// Rules about tools.
    pub permissions: Vec<ToolPermission>,
    /// Bounds around agents.
    pub policies: Vec<AgentPolicy>,
    /// Which commands run, and when a person is asked.
    pub exec: ExecPolicy,
}

impl GovernanceParts {
    /// Nothing is declared.
    pub fn new(revision: impl Into<String>, subject: Subject) -> Self {
        Self {
            revision: revision.into(),
            subject,
            roles: Vec::new(),
            permissions: Vec::new(),
            policies: Vec::new(),
            exec: ExecPolicy::default(),
        }
    }
}

/// What is known of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFacts<'a> {
    /// The name by which it is called.
    pub name: &'a str,
    /// Another name that it has: rules about that one restrict and never permit, so a new name is no way around a rule.
    pub also: Option<&'a str>,
    /// Where it lives; nothing for a function of the program.
    pub kind: Option<ToolType>,
    /// Labels.
    pub capabilities: &'a [String],
    /// What it does to the world; nothing said counts as a write.
    pub operations: &'a [OperationClass],
    /// How much harm it can do.
    pub risk: RiskLevel,
    /// True if it runs in a sandbox.
    pub is_isolated: bool,
}

impl<'a> ToolFacts<'a> {
    /// A tool of low risk without labels.
    pub fn new(name: &'a str, operations: &'a [OperationClass]) -> Self {
        let (risk, is_isolated) = (RiskLevel::Low, false);
        Self { name, also: None, kind: None, capabilities: &[], operations, risk, is_isolated }
    }

    /// True if it runs commands.
    pub fn runs_commands(&self) -> bool {
        let labelled = |label: &String| {
            COMMAND_CAPABILITIES.iter().any(|name| name.eq_ignore_ascii_case(label.trim()))
        };
        self.kind == Some(ToolType::Cli) || self.capabilities.iter().any(labelled)
    }
}

/// Why a model may not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct ModelDenied {
    /// The policy that does not allow it; nothing if what governs the run could not be read.
    pub policy: Option<String>,
    /// The model.
    pub model: String,
}

impl ModelDenied {
    fn sentence(&self) -> String {
        match &self.policy {
            Some(policy) => format!("policy `{policy}` does not allow model `{}`", self.model),
            None => {
                format!("governance could not be read, so model `{}` is not asked", self.model)
            }
        }
    }
}

/// What is decided, with the rule that decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow {
        /// What permits it.
        why: String,
    },
    /// People decide.
    Approval {
        /// What asks for it.
        why: String,
        /// Whose approval counts.
        needed: Approvers,
    },
    /// It may not run, whatever anybody says.
    Deny {
        /// The code for programs.
        code: ToolCode,
        /// What denies it.
        why: String,
    },
}

impl Decision {
    /// What decided it, as a sentence that names the rule.
    pub fn why(&self) -> &str {
        match self {
            Self::Allow { why } | Self::Approval { why, .. } | Self::Deny { why, .. } => why,
        }
    }

    /// The decision in one word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow { .. } => "allow",
            Self::Approval { .. } => "approval_required",
            Self::Deny { .. } => "deny",
        }
    }

    /// The fault of a call that is not simply allowed.
    pub fn fault(&self) -> Option<ToolFault> {
        match self {
            Self::Allow { .. } => None,
            Self::Approval { why, .. } => {
                Some(ToolFault::new(ToolCode::ApprovalPending, why.clone()))
            }
            Self::Deny { code, why } => Some(ToolFault::new(*code, why.clone())),
        }
    }

    pub(crate) fn deny(why: impl Into<String>) -> Self {
        Self::Deny { code: ToolCode::PermissionDenied, why: why.into() }
    }
}

#[cfg(test)]
mod tests;
