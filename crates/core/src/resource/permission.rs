//! Tool permissions: rules that allow a tool call, require an approval or deny it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{OperationClass, ResourceError};
use crate::contract::OPERATION_INVOKE;
use crate::text::string_enum::string_enum;

/// Maximum approvers per call.
const APPROVERS_MAX: u32 = 32;

string_enum! {
    /// Number of required permissions that an agent must have.
    #[derive(Default)]
    MatchMode, "a match mode" {
        /// All permissions.
        #[default]
        All = "all",
        /// At least one permission.
        Any = "any",
    }
}

string_enum! {
    /// Scope of a rule or policy.
    #[derive(PartialOrd, Ord)]
    ApplyMode, "an apply mode" {
        /// All agents of the namespace.
        Global = "global",
        /// The listed targets.
        Scoped = "scoped",
    }
}

string_enum! {
    /// Verdict of a rule, from the most permissive to the strictest.
    #[derive(Default, PartialOrd, Ord)]
    OperationVerdict, "a verdict" {
        /// Allow the call.
        #[default]
        Allow = "allow",
        /// Require an approval.
        ApprovalRequired = "approval_required",
        /// Deny the call.
        Deny = "deny",
    }
}

string_enum! {
    /// Operation class that an entry of a rule matches.
    #[derive(Default)]
    OperationMatch, "an operation class or `*`" {
        /// All classes that no other entry of the rule matches.
        #[default]
        Any = "*" or "",
        /// Read operations.
        Read = "read",
        /// Write operations.
        Write = "write",
        /// Delete operations.
        Delete = "delete",
        /// Administrative operations.
        Admin = "admin",
    }
}

/// Verdict of a rule for one class of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OperationRule {
    /// The operation class.
    pub operation_class: OperationMatch,
    /// The verdict.
    pub verdict: OperationVerdict,
}

/// Required approvers: `required` of those in `of`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approvers {
    /// Number of approvals.
    pub required: u32,
    /// Names of the permitted approvers. Empty permits everyone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// True if the requester of the run cannot approve.
    #[serde(rename = "not_requester")]
    pub exclude_requester: bool,
}

impl Default for Approvers {
    fn default() -> Self {
        Self { required: 1, of: Vec::new(), exclude_requester: false }
    }
}

impl Approvers {
    /// Returns true if one approval by any person suffices.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the principal may approve: the list names it, or the list is empty.
    pub fn includes(&self, principal: &str) -> bool {
        self.of.is_empty() || self.of.iter().any(|name| is_same_principal(name, principal))
    }

    /// Returns true if enough distinct permitted approvers are in the list. Those in `excluded` do not count.
    pub fn is_satisfied_by(&self, people: &[String], excluded: &[String]) -> bool {
        let mut counted: Vec<&String> = Vec::new();
        for one in people {
            let out = one.trim().is_empty()
                || !self.includes(one)
                || excluded.iter().any(|other| is_same_principal(other, one))
                || counted.iter().any(|other| is_same_principal(other, one));
            if !out {
                counted.push(one);
            }
        }
        counted.len() >= self.required as usize
    }
}

/// Returns true if two names mean the same principal. Letter case and surrounding whitespace do not matter.
pub fn is_same_principal(one: &str, two: &str) -> bool {
    one.trim().to_lowercase() == two.trim().to_lowercase()
}

/// A rule about one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolPermission {
    /// Name of the rule.
    pub name: String,
    /// Namespace of the rule.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Name of the tool. Empty uses the name of the rule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_ref: String,
    /// Action that the rule covers.
    #[serde(default = "default_action")]
    pub action: String,
    /// Permissions that the agent's roles must grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_permissions: Vec<String>,
    /// Number of those permissions that suffices.
    #[serde(default)]
    pub match_mode: MatchMode,
    /// Scope of the rule.
    #[serde(default = "default_apply_mode")]
    pub apply_mode: ApplyMode,
    /// Agents of a scoped rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_agents: Vec<String>,
    /// Verdicts per class of operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operation_rules: Vec<OperationRule>,
    /// Required approvers, if the rule requires an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<Approvers>,
}

fn default_action() -> String {
    OPERATION_INVOKE.to_owned()
}

fn default_apply_mode() -> ApplyMode {
    ApplyMode::Global
}

impl From<OperationClass> for OperationMatch {
    fn from(class: OperationClass) -> Self {
        match class {
            OperationClass::Read => Self::Read,
            OperationClass::Write => Self::Write,
            OperationClass::Delete => Self::Delete,
            OperationClass::Admin => Self::Admin,
        }
    }
}

impl ToolPermission {
    /// Creates a rule with default values.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        tool: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            tool_ref: tool.into(),
            action: default_action(),
            required_permissions: Vec::new(),
            match_mode: MatchMode::All,
            apply_mode: ApplyMode::Global,
            target_agents: Vec::new(),
            operation_rules: Vec::new(),
            approvers: None,
        }
    }

    /// Returns the normal form: trimmed, with defaults and without duplicates.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the rule a name")?;
        self.namespace = namespace(&self.namespace);
        self.tool_ref = self.tool_ref.trim().to_owned();
        if self.tool_ref.is_empty() {
            self.tool_ref.clone_from(&self.name);
        }
        self.action = self.action.trim().to_lowercase();
        if self.action.is_empty() {
            self.action = default_action();
        }
        self.required_permissions = trimmed_distinct(&self.required_permissions);
        self.target_agents = trimmed_distinct(&self.target_agents);
        if self.apply_mode == ApplyMode::Scoped && self.target_agents.is_empty() {
            return Err(invalid_field(
                "target_agents",
                "a scoped rule must name an agent",
                "name the agents or use `apply_mode: global`",
            ));
        }
        if let Some(approvers) = &mut self.approvers {
            approvers.of = trimmed_distinct(&approvers.of);
            check_approvers(approvers)?;
        }
        Ok(self)
    }
}

/// Fails if the number of required approvers is out of range, or larger than the number of named people.
fn check_approvers(approvers: &Approvers) -> Result<(), ResourceError> {
    if approvers.required == 0 || approvers.required > APPROVERS_MAX {
        return Err(invalid_field(
            "approvers.required",
            format!("it is not between 1 and {APPROVERS_MAX}"),
            "set the number of people who must approve",
        ));
    }
    if !approvers.of.is_empty() && approvers.of.len() < approvers.required as usize {
        return Err(invalid_field(
            "approvers.of",
            format!("{} are named and {} must approve", approvers.of.len(), approvers.required),
            "name more people or lower `required`",
        ));
    }
    Ok(())
}
