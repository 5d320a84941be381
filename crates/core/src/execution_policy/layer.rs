//! How layers of policy come together, and what is refused because nothing can honour it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution_policy::{
    Ask, ExecPolicy, Host, PolicyError, Resources, RuntimeType, Security, WorkspaceAccess,
};
use crate::scheduling::RetryPolicy;

/// The part of a policy that one layer speaks of; the rest it leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "serde_json::Value")]
pub struct PolicyPatch {
    /// Where commands run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Which commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// When a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
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
    pub resources: Option<Resources>,
    /// How a run is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
}

impl PolicyPatch {
    /// Checks every bound.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.resources.unwrap_or_default().validate()?;
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::validate)
    }

    /// `base` with what this layer says in its place, wider or not.
    pub fn over(&self, base: &ExecPolicy) -> ExecPolicy {
        ExecPolicy {
            host: self.host.unwrap_or(base.host),
            security: self.security.unwrap_or(base.security),
            ask: self.ask.unwrap_or(base.ask),
            deny_misses: base.deny_misses,
            runtime_type: self.runtime_type.unwrap_or(base.runtime_type),
            workspace_access: self.workspace_access.unwrap_or(base.workspace_access),
            network_enabled: self.network_enabled.unwrap_or(base.network_enabled),
            interactive: self.interactive.unwrap_or(base.interactive),
            resources: self.resources.unwrap_or(base.resources),
            retry: self.retry.clone().unwrap_or_else(|| base.retry.clone()),
        }
        .normalised()
    }
}

impl ExecPolicy {
    /// The policy of a run: what its agent says over the defaults, and then only ever tighter, by the ceiling, by the session,
    /// by the call.
    pub fn effective(
        ceiling: &ExecPolicy,
        agent: &PolicyPatch,
        session: &PolicyPatch,
        call: &PolicyPatch,
    ) -> ExecPolicy {
        agent.over(&ExecPolicy::default()).tighten(ceiling).narrowed(session).narrowed(call)
    }

    /// This policy with what a layer asks for, as far as it is tighter.
    #[must_use]
    pub fn narrowed(&self, patch: &PolicyPatch) -> ExecPolicy {
        patch.over(self).tighten(self)
    }

    /// The strictest of both, knob by knob. For a child run: `child.tighten(&parent)`.
    ///
    /// What it decides about a command is exactly the stricter of what both decide. How a run is tried again is no right: it
    /// stays as it is here, with no more tries than `by` allows.
    #[must_use]
    pub fn tighten(&self, by: &ExecPolicy) -> ExecPolicy {
        let never_asks =
            |policy: &ExecPolicy| policy.security == Security::Allowlist && policy.ask == Ask::Off;
        ExecPolicy {
            host: self.host.min(by.host),
            security: self.security.min(by.security),
            ask: self.ask.max(by.ask),
            deny_misses: self.deny_misses || by.deny_misses || never_asks(self) || never_asks(by),
            runtime_type: self.runtime_type.min(by.runtime_type),
            workspace_access: self.workspace_access.min(by.workspace_access),
            network_enabled: self.network_enabled && by.network_enabled,
            interactive: self.interactive && by.interactive,
            resources: self.resources.tighten(by.resources),
            retry: RetryPolicy {
                max_attempts: self.retry.max_attempts.min(by.retry.max_attempts),
                ..self.retry.clone()
            },
        }
        .normalised()
    }
}

impl Resources {
    fn tighten(self, by: Resources) -> Resources {
        let (mine, theirs) = (self.resolved(), by.resolved());
        // Who says nothing takes the default, or less where the other gives less.
        Resources {
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
pub struct Supported {
    /// Where commands can run.
    pub hosts: Vec<Host>,
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

impl ExecPolicy {
    /// Refuses what nothing here can honour: a promise that is not kept would be worse than none.
    ///
    /// Where commands run does not matter to a policy that lets none run.
    pub fn refuse_unsupported(&self, supported: &Supported) -> Result<(), PolicyError> {
        if !self.network_enabled && !supported.network_off {
            return Err(unsupported("network_enabled", "false", "leave the network on"));
        }
        if self.workspace_access != WorkspaceAccess::Rw
            && !supported.workspace_access.contains(&self.workspace_access)
        {
            return Err(unsupported("workspace_access", self.workspace_access.as_str(), "use rw"));
        }
        if self.security == Security::Deny {
            return Ok(());
        }
        if !supported.hosts.contains(&self.host) {
            let fix = "set `security` to deny, or choose another host";
            return Err(unsupported("host", self.host.as_str(), fix));
        }
        if self.host == Host::Sandbox && !supported.runtimes.contains(&self.runtime_type) {
            let fix = "set `security` to deny, or choose another runtime type";
            return Err(unsupported("runtime_type", self.runtime_type.as_str(), fix));
        }
        self.resources.refuse_unsupported(supported)
    }
}

impl Resources {
    fn refuse_unsupported(self, supported: &Supported) -> Result<(), PolicyError> {
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
