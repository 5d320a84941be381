//! A rule about one tool: who may use it, for what, and when people decide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{OperationClass, ResourceError};
use crate::contract::OPERATION_INVOKE;
use crate::text::string_enum::string_enum;

/// How many people one call may need at most.
const APPROVERS_MAX: u32 = 32;

string_enum! {
    /// How many of the required permissions an agent must have.
    #[derive(Default)]
    MatchMode, "a match mode" {
        /// Every one.
        #[default]
        All = "all",
        /// One of them.
        Any = "any",
    }
}

string_enum! {
    /// To whom a rule applies.
    #[derive(PartialOrd, Ord)]
    ApplyMode, "an apply mode" {
        /// To everybody in the namespace.
        Global = "global",
        /// To those it names.
        Scoped = "scoped",
    }
}

string_enum! {
    /// What a rule says, from the widest to the strictest.
    #[derive(Default, PartialOrd, Ord)]
    OperationVerdict, "a verdict" {
        /// Yes.
        #[default]
        Allow = "allow",
        /// People decide.
        ApprovalRequired = "approval_required",
        /// No.
        Deny = "deny",
    }
}

string_enum! {
    /// Which operations a line of a rule is about.
    #[derive(Default)]
    OperationMatch, "an operation class or `*`" {
        /// All that no other line of the rule names.
        #[default]
        Any = "*" or "",
        /// Those that look.
        Read = "read",
        /// Those that change.
        Write = "write",
        /// Those that take away.
        Delete = "delete",
        /// Those that change who may do what.
        Admin = "admin",
    }
}

/// What a rule says about one class of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OperationRule {
    /// The class.
    pub operation_class: OperationMatch,
    /// The verdict.
    pub verdict: OperationVerdict,
}

/// Whose approval a call needs: `required` of those in `of`, or of anybody if it names nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approvers {
    /// How many must say yes.
    pub required: u32,
    /// Who counts; nobody named means that everybody counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// True if whoever started the run does not count.
    #[serde(rename = "not_requester")]
    pub exclude_requester: bool,
}

impl Default for Approvers {
    fn default() -> Self {
        Self { required: 1, of: Vec::new(), exclude_requester: false }
    }
}

impl Approvers {
    /// True if anybody's one yes is enough.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// True if a name is one of those that count.
    pub fn includes(&self, principal: &str) -> bool {
        self.of.is_empty() || self.of.iter().any(|name| is_same_principal(name, principal))
    }

    /// True if enough different people among these count; those in `excluded` do not.
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

/// True if two names mean the same one: neither case nor space around them makes a second person.
pub fn is_same_principal(one: &str, two: &str) -> bool {
    one.trim().to_lowercase() == two.trim().to_lowercase()
}

/// A rule about one tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolPermission {
    /// Its name.
    pub name: String,
    /// Where it counts, and nowhere else.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The tool; its own name if nothing is said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool_ref: String,
    /// The action that it is about; it says nothing about any other.
    #[serde(default = "default_action")]
    pub action: String,
    /// What the agent's roles must permit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_permissions: Vec<String>,
    /// How many of them.
    #[serde(default)]
    pub match_mode: MatchMode,
    /// To whom it applies.
    #[serde(default = "default_apply_mode")]
    pub apply_mode: ApplyMode,
    /// The agents of a scoped rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_agents: Vec<String>,
    /// What it says about classes of operations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operation_rules: Vec<OperationRule>,
    /// Whose approval counts where it asks for one.
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
    /// A rule about a tool, with nothing but defaults.
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

    /// The normal form: trimmed, defaults filled in, each word once.
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
