//! Where and how an agent's commands may run.
//!
//! A policy is checked, brought into normal form and copied onto the run, so that a later change of the agent does not touch
//! a run in flight. Layers only tighten: nothing below a ceiling, and no child of a run, can do more than what is above it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scheduling::RetryPolicy;
use crate::text::string_enum::string_enum;
use crate::usage::limits::{
    ATTEMPTS_MAX, CPU_MILLICORES_DEFAULT, CPU_MILLICORES_MAX, GPUS_MAX, MEMORY_BYTES_DEFAULT,
    MEMORY_BYTES_MAX,
};

mod layer;
mod parse;

pub use layer::{ExecutionPolicyPatch, SandboxCapabilities};

string_enum! {
    /// Where commands run, from the strictest to the widest.
    #[derive(Default, PartialOrd, Ord)]
    ExecutionHost as "Host", "a host" {
        /// In a sandbox.
        #[default]
        Sandbox = "sandbox",
        /// On another machine that was set up for it.
        Node = "node",
        /// On the machine of the engine.
        Local = "local",
    }
}

string_enum! {
    /// Which commands may run at all, from the strictest to the widest.
    #[derive(Default, PartialOrd, Ord)]
    CommandPolicy as "Security", "a security" {
        /// None.
        Deny = "deny",
        /// Those on the agent's list; of a chain every part must be on it.
        #[default]
        Allowlist = "allowlist",
        /// Whatever the place permits.
        Full = "full",
    }
}

string_enum! {
    /// When a person is asked, from the least often to the most often.
    #[derive(Default, PartialOrd, Ord)]
    CommandApproval as "Ask", "an ask" {
        /// Never: what is not on the list is denied at once.
        #[default]
        Off = "off",
        /// When the list does not match.
        OnMiss = "on-miss",
        /// For every command, whatever was granted before.
        Always = "always",
    }
}

string_enum! {
    /// How a sandbox is isolated, from the strictest to the widest.
    #[derive(Default, PartialOrd, Ord)]
    RuntimeType, "a runtime type" {
        /// A kernel of its own in user space.
        #[default]
        Gvisor = "gvisor",
        /// A container on the machine's kernel; only if the operator enabled it.
        Runc = "runc",
    }
}

string_enum! {
    /// What commands see of the workspace, from the strictest to the widest.
    #[derive(Default, PartialOrd, Ord)]
    WorkspaceAccess, "a workspace access" {
        /// Nothing.
        None = "none",
        /// They read it.
        Ro = "ro",
        /// They read and write it.
        #[default]
        Rw = "rw",
    }
}

string_enum! {
    /// What is done with a command, from the strictest to the widest.
    #[derive(PartialOrd, Ord)]
    CommandDecision, "a decision" {
        /// It does not run.
        Deny = "deny",
        /// A person decides.
        Ask = "ask",
        /// It runs.
        Run = "run",
    }
}

/// What a sandbox may use. What is not said is the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Resources")]
pub struct SandboxResources {
    /// Thousandths of a processor core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Graphics processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

impl SandboxResources {
    /// The same with every default filled in.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self {
            cpu: Some(self.cpu.unwrap_or(CPU_MILLICORES_DEFAULT)),
            memory: Some(self.memory.unwrap_or(MEMORY_BYTES_DEFAULT)),
            gpu: Some(self.gpu.unwrap_or(0)),
        }
    }

    pub(crate) fn validate(self) -> Result<(), PolicyError> {
        let bounds = [
            ("cpu", self.cpu.map(u64::from), 1, u64::from(CPU_MILLICORES_MAX), "millicores"),
            ("memory", self.memory, 1, MEMORY_BYTES_MAX, "bytes"),
            ("gpu", self.gpu.map(u64::from), 0, u64::from(GPUS_MAX), "processors"),
        ];
        for (field, asked, min, max, unit) in bounds {
            if let Some(asked) = asked.filter(|asked| !(min..=max).contains(asked)) {
                return Err(PolicyError::invalid(
                    &format!("policy.resources.{field}"),
                    format!("{asked} {unit} are out of range"),
                    format!("use {min} to {max}"),
                ));
            }
        }
        Ok(())
    }
}

/// How the commands of one run may be executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ExecPolicy")]
pub struct ExecutionPolicy {
    /// Where.
    pub host: ExecutionHost,
    /// Which commands.
    pub security: CommandPolicy,
    /// When a person is asked, per command.
    pub ask: CommandApproval,
    /// True if a miss is denied though `ask` is always: some layer never asks about a miss.
    #[serde(rename = "deny_misses", skip_serializing_if = "std::ops::Not::not")]
    pub deny_unlisted: bool,
    /// How a sandbox is isolated.
    pub runtime_type: RuntimeType,
    /// What commands see of the workspace.
    pub workspace_access: WorkspaceAccess,
    /// False: no network but loopback.
    pub network_enabled: bool,
    /// True if a person is there who can answer.
    pub interactive: bool,
    /// What a sandbox may use.
    pub resources: SandboxResources,
    /// How a run is tried again.
    pub retry: RetryPolicy,
}

impl Default for ExecutionPolicy {
    fn default() -> Self {
        Self {
            host: ExecutionHost::default(),
            security: CommandPolicy::default(),
            ask: CommandApproval::default(),
            deny_unlisted: false,
            runtime_type: RuntimeType::default(),
            workspace_access: WorkspaceAccess::default(),
            network_enabled: true,
            interactive: false,
            resources: SandboxResources::default(),
            retry: RetryPolicy::default(),
        }
    }
}

impl ExecutionPolicy {
    /// The ceiling that takes nothing away.
    pub fn unrestricted() -> Self {
        Self {
            host: ExecutionHost::Local,
            security: CommandPolicy::Full,
            ask: CommandApproval::Off,
            runtime_type: RuntimeType::Runc,
            interactive: true,
            resources: SandboxResources {
                cpu: Some(CPU_MILLICORES_MAX),
                memory: Some(MEMORY_BYTES_MAX),
                gpu: Some(GPUS_MAX),
            },
            retry: RetryPolicy { max_attempts: ATTEMPTS_MAX, ..RetryPolicy::default() },
            ..Self::default()
        }
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.resources.validate()?;
        self.retry.validate()
    }

    /// The normal form: what can have no meaning is as it is by default.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        match (self.security, self.ask) {
            // Where no command runs, nothing is asked.
            (CommandPolicy::Deny, _) => {
                (self.ask, self.deny_unlisted) = (CommandApproval::Off, false)
            }
            // Without a list nothing is missed; and to deny every miss is what `off` means.
            (CommandPolicy::Full, _) | (_, CommandApproval::Off) => self.deny_unlisted = false,
            (_, CommandApproval::OnMiss) if self.deny_unlisted => {
                (self.ask, self.deny_unlisted) = (CommandApproval::Off, false);
            }
            _ => {}
        }
        self.retry = self.retry.normalized();
        self
    }

    /// What is done with a command. One that cannot be parsed is a miss.
    pub fn decide(&self, on_list: bool) -> CommandDecision {
        let decision = decide(self.security, self.ask, on_list);
        let denies = self.security == CommandPolicy::Allowlist && !on_list && self.deny_unlisted;
        if denies { CommandDecision::Deny } else { decision }
    }
}

/// The table of `security`, `ask` and whether the command is on the agent's list.
pub const fn decide(
    security: CommandPolicy,
    ask: CommandApproval,
    on_list: bool,
) -> CommandDecision {
    match (security, ask, on_list) {
        (CommandPolicy::Deny, _, _) | (CommandPolicy::Allowlist, CommandApproval::Off, false) => {
            CommandDecision::Deny
        }
        (CommandPolicy::Allowlist, CommandApproval::OnMiss, false)
        | (_, CommandApproval::Always, _) => CommandDecision::Ask,
        (CommandPolicy::Allowlist, CommandApproval::Off | CommandApproval::OnMiss, true)
        | (CommandPolicy::Full, CommandApproval::Off | CommandApproval::OnMiss, _) => {
            CommandDecision::Run
        }
    }
}

/// Why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// Where, such as `policy.security`.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub fix: String,
    /// True if the policy is sound and nothing here can honour it.
    pub unsupported: bool,
}

impl PolicyError {
    pub(crate) fn invalid(path: &str, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        let path = path.to_owned();
        Self { path, problem: problem.into(), fix: fix.into(), unsupported: false }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        if self.unsupported { "policy_unsupported" } else { "policy_invalid" }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.problem, self.fix)
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests;
