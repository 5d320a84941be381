//! How layers of policy come together, and what is refused because nothing can honour it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution_policy::{
    CommandApproval, CommandPolicy, ExecutionHost, ExecutionPolicy, PolicyError, RuntimeType,
    SandboxResources, WorkspaceAccess,
};
use crate::scheduling::RetryPolicy;

/// The part of a policy that one layer speaks of; the rest it leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "serde_json::Value")]
#[schemars(rename = "PolicyPatch")]
pub struct ExecutionPolicyPatch {
    /// Where commands run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<ExecutionHost>,
    /// Which commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<CommandPolicy>,
    /// When a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<CommandApproval>,
    /// How a sandbox is isolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_type: Option<RuntimeType>,
    /// What commands see of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_access: Option<WorkspaceAccess>,
    /// Whether there is a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_enabled: Option<bool>,
    /// Whether a person can answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interactive: Option<bool>,
    /// What a sandbox may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<SandboxResources>,
    /// How a run is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
}

impl ExecutionPolicyPatch {
    /// Checks every bound.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.resources.unwrap_or_default().validate()?;
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::validate)
    }

    /// `base` with what this layer says in its place, wider or not.
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
    /// The policy of a run: what its agent says over the defaults, and then only ever tighter, by the ceiling, by the session,
    /// by the call.
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

    /// This policy with what a layer asks for, as far as it is tighter.
    #[must_use]
    pub fn restricted_by(&self, patch: &ExecutionPolicyPatch) -> ExecutionPolicy {
        patch.apply_to(self).intersect(self)
    }

    /// The strictest of both, knob by knob. For a child run: `child.tighten(&parent)`.
    ///
    /// What it decides about a command is exactly the stricter of what both decide. How a run is tried again is no right: it
    /// stays as it is here, with no more tries than `by` allows.
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
    fn intersect(self, by: SandboxResources) -> SandboxResources {
        let (mine, theirs) = (self.resolved(), by.resolved());
        // Who says nothing takes the default, or less where the other gives less.
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

/// The second number, if it is the smaller one.
fn below<T: PartialOrd>(mine: Option<T>, theirs: Option<T>) -> Option<T> {
    theirs.filter(|theirs| mine.is_some_and(|mine| *theirs < mine))
}

/// What the places to run in can honour. Nothing, unless somebody says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxCapabilities {
    /// Where commands can run.
    pub hosts: Vec<ExecutionHost>,
    /// Which kinds of sandbox there are.
    pub runtimes: Vec<RuntimeType>,
    /// True if the network can be taken away.
    pub network_off: bool,
    /// Ways of seeing the workspace besides reading and writing it.
    pub workspace_access: Vec<WorkspaceAccess>,
    /// True if processor time and memory can be bounded.
    pub resource_limits: bool,
    /// Graphics processors there are.
    pub gpus: u32,
}

impl ExecutionPolicy {
    /// Refuses what nothing here can honour: a promise that is not kept would be worse than none.
    ///
    /// Where commands run does not matter to a policy that lets none run.
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

fn unsupported(field: &str, value: &str, fix: &str) -> PolicyError {
    PolicyError {
        path: format!("policy.{field}"),
        problem: format!("no sandbox here can honour `{value}`"),
        fix: fix.to_owned(),
        unsupported: true,
    }
}
