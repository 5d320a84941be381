//! Execution policies: where and how the commands of an agent may run.
//!
//! A policy is validated, normalized and copied to the run, so that a later change of the agent does not affect active
//! runs. Layers only restrict: neither a layer below a ceiling nor a child run can do more than its parent.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scheduling::RetryPolicy;
use crate::text::string_enum::string_enum;
use crate::usage::limits::{
    ATTEMPTS_MAX, CPU_MILLICORES_DEFAULT, CPU_MILLICORES_MAX, GPUS_MAX, MEMORY_BYTES_MAX,
    POLICY_MEMORY_BYTES_DEFAULT,
};

mod layer;
mod parse;

pub use layer::{ExecutionPolicyPatch, SandboxCapabilities};

string_enum! {
    /// Location where commands run, from the strictest to the most permissive.
    #[derive(Default, PartialOrd, Ord)]
    ExecutionHost as "Host", "a host" {
        /// In a sandbox.
        #[default]
        Sandbox = "sandbox",
        /// On a remote machine that the operator set up.
        Node = "node",
        /// On the machine of the engine.
        Local = "local",
    }
}

string_enum! {
    /// Commands that may run, from the strictest to the most permissive.
    #[derive(Default, PartialOrd, Ord)]
    CommandPolicy as "Security", "a security" {
        /// No command.
        Deny = "deny",
        /// Commands on the agent's allowlist. Every part of a command chain must be on it.
        #[default]
        Allowlist = "allowlist",
        /// Every command that the host permits.
        Full = "full",
    }
}

string_enum! {
    /// Condition for asking an approver, from the least to the most frequent.
    #[derive(Default, PartialOrd, Ord)]
    CommandApproval as "Ask", "an ask" {
        /// Never. A command that is not on the allowlist is denied.
        #[default]
        Off = "off",
        /// For commands that are not on the allowlist.
        OnMiss = "on-miss",
        /// For every command, even with a standing approval.
        Always = "always",
    }
}

string_enum! {
    /// Isolation of a sandbox, from the strictest to the most permissive.
    #[derive(Default, PartialOrd, Ord)]
    RuntimeType, "a runtime type" {
        /// gVisor: a separate kernel in user space.
        #[default]
        Gvisor = "gvisor",
        /// A container on the host's kernel. Requires that the operator enables it.
        Runc = "runc",
    }
}

string_enum! {
    /// Access of commands to the workspace, from the strictest to the most permissive.
    #[derive(Default, PartialOrd, Ord)]
    WorkspaceAccess, "a workspace access" {
        /// No access.
        None = "none",
        /// Read-only access.
        Ro = "ro",
        /// Read and write access.
        #[default]
        Rw = "rw",
    }
}

string_enum! {
    /// Decision about a command, from the strictest to the most permissive.
    #[derive(PartialOrd, Ord)]
    CommandDecision, "a decision" {
        /// Deny the command.
        Deny = "deny",
        /// Ask an approver.
        Ask = "ask",
        /// Run the command.
        Run = "run",
    }
}

/// Resource limits of a sandbox. Unset values use the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Resources")]
pub struct SandboxResources {
    /// CPU limit in thousandths of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory limit in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Number of GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

impl SandboxResources {
    /// Returns the limits with all defaults filled in.
    #[must_use]
    pub fn resolved(self) -> Self {
        Self {
            cpu: Some(self.cpu.unwrap_or(CPU_MILLICORES_DEFAULT)),
            memory: Some(self.memory.unwrap_or(POLICY_MEMORY_BYTES_DEFAULT)),
            gpu: Some(self.gpu.unwrap_or(0)),
        }
    }

    /// Fails if a value is outside of its range.
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

/// The execution policy of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ExecPolicy")]
pub struct ExecutionPolicy {
    /// Location where commands run.
    pub host: ExecutionHost,
    /// Commands that may run.
    pub security: CommandPolicy,
    /// Condition for asking an approver.
    pub ask: CommandApproval,
    /// True if commands that are not on the allowlist are denied even if `ask` is `always`, because a layer never asks
    /// about them.
    #[serde(rename = "deny_misses", skip_serializing_if = "std::ops::Not::not")]
    pub deny_unlisted: bool,
    /// Isolation of the sandbox.
    pub runtime_type: RuntimeType,
    /// Access to the workspace.
    pub workspace_access: WorkspaceAccess,
    /// True if commands have network access. False permits only the loopback interface.
    pub network_enabled: bool,
    /// True if an approver can respond.
    pub interactive: bool,
    /// Resource limits of the sandbox.
    pub resources: SandboxResources,
    /// Retry policy of the run.
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
    /// Returns the policy without restrictions.
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

    /// Fails for the first invalid value.
    pub fn validate(&self) -> Result<(), PolicyError> {
        self.resources.validate()?;
        self.retry.validate()
    }

    /// Returns the normal form: values without an effect are set to their defaults.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        match (self.security, self.ask) {
            // Without commands, there is nothing to approve.
            (CommandPolicy::Deny, _) => {
                (self.ask, self.deny_unlisted) = (CommandApproval::Off, false)
            }
            // Without an allowlist every command matches; and denying every other command is what `off` means.
            (CommandPolicy::Full, _) | (_, CommandApproval::Off) => self.deny_unlisted = false,
            (_, CommandApproval::OnMiss) if self.deny_unlisted => {
                (self.ask, self.deny_unlisted) = (CommandApproval::Off, false);
            }
            _ => {}
        }
        self.retry = self.retry.normalized();
        self
    }

    /// Decides whether a command runs, needs approval or is denied. `on_list` is true if the command is on the agent's
    /// allowlist; a command that cannot be parsed is not.
    pub fn decide(&self, on_list: bool) -> CommandDecision {
        let decision = decide(self.security, self.ask, on_list);
        let denies = self.security == CommandPolicy::Allowlist && !on_list && self.deny_unlisted;
        if denies { CommandDecision::Deny } else { decision }
    }
}

/// Decides by `security`, `ask` and whether the command is on the agent's allowlist.
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

/// An invalid or unsupported policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// Path of the value, such as `policy.security`.
    pub path: String,
    /// The problem.
    pub problem: String,
    /// The suggested fix.
    pub fix: String,
    /// True if the policy is valid but this installation cannot enforce it.
    pub unsupported: bool,
}

impl PolicyError {
    /// Creates the error of an invalid value.
    pub(crate) fn invalid(path: &str, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        let path = path.to_owned();
        Self { path, problem: problem.into(), fix: fix.into(), unsupported: false }
    }

    /// Returns the stable error code.
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
