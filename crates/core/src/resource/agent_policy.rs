//! Agent policies: restrictions that an operator sets for agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{ApplyMode, ResourceError, RiskLevel};

/// Restrictions for agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPolicy {
    /// Name of the policy.
    pub name: String,
    /// Namespace of the policy.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Maximum tokens per run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_per_run: Option<u64>,
    /// Allowed models. Empty means all models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_models: Vec<String>,
    /// Tools that may not be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_tools: Vec<String>,
    /// Lowest risk level at which a tool must run in a sandbox, whatever isolation the tool declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolate_from: Option<RiskLevel>,
    /// Scope of the policy.
    #[serde(default = "default_apply_mode")]
    pub apply_mode: ApplyMode,
    /// Systems of a scoped policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_systems: Vec<String>,
    /// Tasks of a scoped policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_tasks: Vec<String>,
}

fn default_apply_mode() -> ApplyMode {
    ApplyMode::Scoped
}

impl AgentPolicy {
    /// Creates a policy without restrictions for all agents of a namespace.
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

    /// Returns true if the policy applies to a task of a system. Namespaces are compared literally.
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

    /// Returns the normal form: trimmed and distinct names, `None` instead of a limit of 0, and a valid scope.
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
