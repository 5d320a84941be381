//! Layers of execution policies, and the check that this installation can enforce the result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution_policy::{
    CommandApproval, CommandPolicy, ExecutionHost, ExecutionPolicy, PolicyError, RuntimeType,
    SandboxResources, WorkspaceAccess,
};
use crate::scheduling::RetryPolicy;

/// The values that one layer sets. `None` leaves a value unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "serde_json::Value")]
#[schemars(rename = "PolicyPatch")]
pub struct ExecutionPolicyPatch {
    /// Location where commands run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<ExecutionHost>,
    /// Commands that may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<CommandPolicy>,
    /// Condition for asking an approver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<CommandApproval>,
    /// Isolation of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_type: Option<RuntimeType>,
    /// Access to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_access: Option<WorkspaceAccess>,
    /// Network access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_enabled: Option<bool>,
    /// True if an approver can respond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interactive: Option<bool>,
    /// Resource limits of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<SandboxResources>,
    /// Retry policy of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
}

impl ExecutionPolicyPatch {
    /// Fails for the first invalid value.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.resources.unwrap_or_default().validate()?;
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::validate)
    }

    /// Returns `base` with the values of this layer, even if they are more permissive.
    pub fn apply_to(&self, base: &ExecutionPolicy) -> ExecutionPolicy {
        ExecutionPolicy {
            host: self.host.unwrap_or(base.host),
            security: self.security.unwrap_or(base.security),
            ask: self.ask.unwrap_or(base.ask),
            deny_unlisted: base.deny_unlisted,
            runtime_type: self.runtime_type.unwrap_or(base.runtime_type),
            workspace_access: self.workspace_access.unwrap_or(base.workspace_access),
            network_enabled: self.network_enabled.unwrap_or(base.network_enabled),
            interactive: self.interactive.unwrap_or(base.interactive),
            resources: self.resources.unwrap_or(base.resources),
            retry: self.retry.clone().unwrap_or_else(|| base.retry.clone()),
        }
        .normalized()
    }
}

impl ExecutionPolicy {
    /// Returns the policy of a run: the agent's values over the defaults, then restricted by the ceiling, the session
    /// and the call.
    pub fn effective(
        ceiling: &ExecutionPolicy,
        agent: &ExecutionPolicyPatch,
        session: &ExecutionPolicyPatch,
        call: &ExecutionPolicyPatch,
    ) -> ExecutionPolicy {
        agent
            .apply_to(&ExecutionPolicy::default())
            .intersect(ceiling)
            .restricted_by(session)
            .restricted_by(call)
    }

    /// Returns this policy with the values of a layer, as far as they are stricter.
    #[must_use]
    pub fn restricted_by(&self, patch: &ExecutionPolicyPatch) -> ExecutionPolicy {
        patch.apply_to(self).intersect(self)
    }

    /// Returns the stricter value of both policies for every setting. For a child run: `child.intersect(&parent)`.
    ///
    /// The result decides about a command exactly as the stricter of both policies. The retry policy is not a right: it
    /// stays as it is here, with at most the retries that `by` allows.
    #[must_use]
    pub fn intersect(&self, by: &ExecutionPolicy) -> ExecutionPolicy {
        let never_asks = |policy: &ExecutionPolicy| {
            policy.security == CommandPolicy::Allowlist && policy.ask == CommandApproval::Off
        };
        ExecutionPolicy {
            host: self.host.min(by.host),
            security: self.security.min(by.security),
            ask: self.ask.max(by.ask),
            deny_unlisted: self.deny_unlisted
                || by.deny_unlisted
                || never_asks(self)
                || never_asks(by),
            runtime_type: self.runtime_type.min(by.runtime_type),
            workspace_access: self.workspace_access.min(by.workspace_access),
            network_enabled: self.network_enabled && by.network_enabled,
            interactive: self.interactive && by.interactive,
            resources: self.resources.intersect(by.resources),
            retry: RetryPolicy {
                max_attempts: self.retry.max_attempts.min(by.retry.max_attempts),
                ..self.retry.clone()
            },
        }
        .normalized()
    }
}

impl SandboxResources {
    /// Returns the stricter limit of both for each resource, with defaults for unset values.
    fn intersect(self, by: SandboxResources) -> SandboxResources {
        let (mine, theirs) = (self.resolved(), by.resolved());
        // An unset limit uses the default, or the other policy's limit if that is lower.
        SandboxResources {
            cpu: self.cpu.and(mine.cpu.min(theirs.cpu)).or(below(mine.cpu, theirs.cpu)),
            memory: self
                .memory
                .and(mine.memory.min(theirs.memory))
                .or(below(mine.memory, theirs.memory)),
            gpu: self.gpu.and(mine.gpu.min(theirs.gpu)),
        }
    }
}

/// Returns `theirs` if it is smaller than `mine`, otherwise `None`.
fn below<T: PartialOrd>(mine: Option<T>, theirs: Option<T>) -> Option<T> {
    theirs.filter(|theirs| mine.is_some_and(|mine| *theirs < mine))
}

/// The settings that this installation can enforce. The default enforces nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxCapabilities {
    /// Available hosts.
    pub hosts: Vec<ExecutionHost>,
    /// Available sandbox runtimes.
    pub runtimes: Vec<RuntimeType>,
    /// True if network access can be removed.
    pub network_off: bool,
    /// Available workspace access modes other than read and write.
    pub workspace_access: Vec<WorkspaceAccess>,
    /// True if CPU and memory can be limited.
    pub resource_limits: bool,
    /// Number of GPUs.
    pub gpus: u32,
}

impl ExecutionPolicy {
    /// Rejects a policy that this installation cannot enforce, instead of ignoring it.
    ///
    /// A policy that permits no commands is valid with any host.
    pub fn check_supported(&self, supported: &SandboxCapabilities) -> Result<(), PolicyError> {
        if !self.network_enabled && !supported.network_off {
            return Err(unsupported("network_enabled", "false", "leave the network on"));
        }
        if self.workspace_access != WorkspaceAccess::Rw
            && !supported.workspace_access.contains(&self.workspace_access)
        {
            return Err(unsupported("workspace_access", self.workspace_access.as_str(), "use rw"));
        }
        if self.security == CommandPolicy::Deny {
            return Ok(());
        }
        if !supported.hosts.contains(&self.host) {
            let fix = "set `security` to deny, or choose another host";
            return Err(unsupported("host", self.host.as_str(), fix));
        }
        if self.host == ExecutionHost::Sandbox && !supported.runtimes.contains(&self.runtime_type) {
            let fix = "set `security` to deny, or choose another runtime type";
            return Err(unsupported("runtime_type", self.runtime_type.as_str(), fix));
        }
        self.resources.check_supported(supported)
    }
}

impl SandboxResources {
    /// Fails for a limit that this installation cannot enforce.
    fn check_supported(self, supported: &SandboxCapabilities) -> Result<(), PolicyError> {
        let fix = "leave it out";
        if let Some(cpu) = self.cpu.filter(|_| !supported.resource_limits) {
            return Err(unsupported("resources.cpu", &cpu.to_string(), fix));
        }
        if let Some(memory) = self.memory.filter(|_| !supported.resource_limits) {
            return Err(unsupported("resources.memory", &memory.to_string(), fix));
        }
        if let Some(gpu) = self.gpu.filter(|gpu| *gpu > supported.gpus) {
            let fix = format!("use at most {}", supported.gpus);
            return Err(unsupported("resources.gpu", &gpu.to_string(), &fix));
        }
        Ok(())
    }
}

/// Creates the error of a value that no sandbox of this installation can enforce.
fn unsupported(field: &str, value: &str, fix: &str) -> PolicyError {
    PolicyError {
        path: format!("policy.{field}"),
        problem: format!("no sandbox here can honour `{value}`"),
        fix: fix.to_owned(),
        unsupported: true,
    }
}
