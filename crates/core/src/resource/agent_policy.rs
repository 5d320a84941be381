//! Bounds that an operator puts around agents, whatever the agents say of themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{ApplyMode, ResourceError, RiskLevel};

/// Bounds around agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPolicy {
    /// Its name.
    pub name: String,
    /// Where it counts, and nowhere else.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Tokens that one run may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_per_run: Option<u64>,
    /// The models that may be used; nothing named means every one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_models: Vec<String>,
    /// Tools of which no call runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_tools: Vec<String>,
    /// From this risk on a tool runs only in a sandbox, whatever it says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolate_from: Option<RiskLevel>,
    /// To what it applies.
    #[serde(default = "default_apply_mode")]
    pub apply_mode: ApplyMode,
    /// The systems of a scoped policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_systems: Vec<String>,
    /// The tasks of a scoped policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_tasks: Vec<String>,
}

fn default_apply_mode() -> ApplyMode {
    ApplyMode::Scoped
}

impl AgentPolicy {
    /// A policy for everything in a namespace that bounds nothing yet.
    pub fn global(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            max_tokens_per_run: None,
            allowed_models: Vec::new(),
            blocked_tools: Vec::new(),
            isolate_from: None,
            apply_mode: ApplyMode::Global,
            target_systems: Vec::new(),
            target_tasks: Vec::new(),
        }
    }

    /// Does it apply to a task of a system? Namespaces are compared by the caller's own words, never guessed.
    pub fn applies_to(&self, namespace: &str, task: &str, system: &str) -> bool {
        let is_listed = |names: &[String], name: &str| {
            let name = name.trim().to_lowercase();
            !name.is_empty() && names.iter().any(|listed| listed.trim().to_lowercase() == name)
        };
        self.namespace.trim() == namespace.trim()
            && (self.apply_mode == ApplyMode::Global
                || is_listed(&self.target_tasks, task)
                || is_listed(&self.target_systems, system))
    }

    /// The normal form: trimmed, each word once, a bound of zero is none, and it applies to something.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the policy a name")?;
        self.namespace = namespace(&self.namespace);
        self.max_tokens_per_run = self.max_tokens_per_run.filter(|tokens| *tokens > 0);
        for names in [
            &mut self.allowed_models,
            &mut self.blocked_tools,
            &mut self.target_systems,
            &mut self.target_tasks,
        ] {
            *names = trimmed_distinct(names);
        }
        let has_no_target = self.target_systems.is_empty() && self.target_tasks.is_empty();
        if self.apply_mode == ApplyMode::Scoped && has_no_target {
            return Err(invalid_field(
                "target_systems",
                "a scoped policy must name a system or a task",
                "name systems or tasks, or use `apply_mode: global`",
            ));
        }
        Ok(self)
    }
}
