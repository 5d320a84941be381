//! Authorisation of tool calls: one pure decision over the rules, roles and policies that an operator declares.
//!
//! A [`CompiledPolicy`] holds everything that applies to one run. It is compiled once, so that a decision is a table
//! lookup. [`CompiledPolicy::decide`] returns the most restrictive verdict: deny over approval, approval over allow.
//! An operation that no rule covers is denied unless it only reads.
//!
//! Invariants: a decision depends only on the compiled snapshot, a rule of another namespace never applies, and no
//! rule is skipped because there are too many.
//!
//! ```
//! use provost_core::policy::{CompiledPolicy, PolicyDecision, PolicySources, PolicySubject, ToolAttributes};
//! use provost_core::resource::OperationClass;
//!
//! let subject = PolicySubject::new("default", "clerk");
//! let governance = CompiledPolicy::compile(PolicySources::new("r1", subject))?;
//! let read = ToolAttributes::new("search", &[OperationClass::Read]);
//! let write = ToolAttributes::new("post", &[OperationClass::Write]);
//! assert!(matches!(governance.decide(&read, "invoke"), PolicyDecision::Allow { .. }));
//! assert!(matches!(governance.decide(&write, "invoke"), PolicyDecision::Deny { .. }));
//! # Ok::<_, provost_core::resource::ResourceError>(())
//! ```

mod compile;
mod decide;
mod name;

pub use compile::CompiledPolicy;
pub use name::normalize_name;

use crate::contract::ToolErrorCode;
use crate::execution_policy::ExecutionPolicy;
use crate::resource::{
    AgentPolicy, AgentRole, Approvers, OperationClass, RiskLevel, ToolPermission, ToolType,
};

/// Capabilities that mark a tool as one that runs commands. The execution policy of the run applies to such tools.
pub const COMMAND_CAPABILITIES: [&str; 3] = ["exec", "shell", "command"];

/// Agent that a decision is about, with its context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySubject {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the agent.
    pub agent: String,
    /// Roles of the agent. A role that does not exist denies every call.
    pub roles: Vec<String>,
    /// Tools that the author of the agent lists. They apply only where no rule matches; a rule always wins.
    pub allowed_tools: Vec<String>,
    /// Name of the task, for scoped policies.
    pub task: String,
    /// Name of the system, for scoped policies.
    pub system: String,
}

impl PolicySubject {
    /// Creates a subject without roles.
    pub fn new(namespace: impl Into<String>, agent: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), agent: agent.into(), ..Self::default() }
    }
}

/// Input of [`CompiledPolicy::compile`]. It may contain resources that do not apply to the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySources {
    /// Changes whenever any of the sources changes. Approvals are bound to it.
    pub revision: String,
    /// Agent that the policy applies to.
    pub subject: PolicySubject,
    /// Declared roles.
    pub roles: Vec<AgentRole>,
    /// Declared tool permissions.
    pub permissions: Vec<ToolPermission>,
    /// Declared agent policies.
    pub policies: Vec<AgentPolicy>,
    /// Execution policy of the run.
    pub exec: ExecutionPolicy,
}

impl PolicySources {
    /// Creates sources without roles, permissions and policies.
    pub fn new(revision: impl Into<String>, subject: PolicySubject) -> Self {
        Self {
            revision: revision.into(),
            subject,
            roles: Vec::new(),
            permissions: Vec::new(),
            policies: Vec::new(),
            exec: ExecutionPolicy::default(),
        }
    }
}

/// Attributes of a tool that a decision depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolAttributes<'a> {
    /// Name by which the tool is called.
    pub name: &'a str,
    /// Another name of the same tool. Rules about the alias can deny or require approval but never allow, so renaming a
    /// tool does not bypass a rule.
    pub alias: Option<&'a str>,
    /// Runtime of the tool. `None` for a function of the program.
    pub kind: Option<ToolType>,
    /// Capability labels of the tool.
    pub capabilities: &'a [String],
    /// Operations of the tool. An empty list counts as a write.
    pub operations: &'a [OperationClass],
    /// Declared risk of the tool.
    pub risk: RiskLevel,
    /// True if the tool runs in a sandbox.
    pub is_isolated: bool,
}

impl<'a> ToolAttributes<'a> {
    /// Returns the attributes of a low-risk tool without capabilities.
    pub fn new(name: &'a str, operations: &'a [OperationClass]) -> Self {
        let (risk, is_isolated) = (RiskLevel::Low, false);
        Self { name, alias: None, kind: None, capabilities: &[], operations, risk, is_isolated }
    }

    /// Returns true if the tool runs commands: it is a `cli` tool or has one of [`COMMAND_CAPABILITIES`].
    pub fn runs_commands(&self) -> bool {
        let labelled = |label: &String| {
            COMMAND_CAPABILITIES.iter().any(|name| name.eq_ignore_ascii_case(label.trim()))
        };
        self.kind == Some(ToolType::Cli) || self.capabilities.iter().any(labelled)
    }
}

/// A model call that policy does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub struct ModelDenied {
    /// Name of the policy that denies the model. `None` if the policies of the run could not be read.
    pub policy: Option<String>,
    /// Name of the model.
    pub model: String,
}

impl ModelDenied {
    /// Returns the description of the denial.
    fn message(&self) -> String {
        match &self.policy {
            Some(policy) => format!("policy `{policy}` does not allow model `{}`", self.model),
            None => {
                format!("governance could not be read, so model `{}` is not used", self.model)
            }
        }
    }
}

/// Decision about one call, with the rule that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyDecision {
    /// The call may run.
    Allow {
        /// Reason, which names the rule.
        reason: String,
    },
    /// The call needs approval.
    Approval {
        /// Reason, which names the rule.
        reason: String,
        /// Required approvers.
        approvers: Approvers,
    },
    /// The call is denied. An approval cannot override it.
    Deny {
        /// Error code for programs.
        code: ToolErrorCode,
        /// Reason, which names the rule.
        reason: String,
    },
}

impl PolicyDecision {
    /// Returns the reason for the decision, as a sentence that names the rule.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allow { reason: why }
            | Self::Approval { reason: why, .. }
            | Self::Deny { reason: why, .. } => why,
        }
    }

    /// Returns the stable name of the decision.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow { .. } => "allow",
            Self::Approval { .. } => "approval_required",
            Self::Deny { .. } => "deny",
        }
    }

    /// Creates a denial with the code [`ToolErrorCode::PermissionDenied`].
    pub(crate) fn deny(why: impl Into<String>) -> Self {
        Self::Deny { code: ToolErrorCode::PermissionDenied, reason: why.into() }
    }
}

#[cfg(test)]
mod tests;
