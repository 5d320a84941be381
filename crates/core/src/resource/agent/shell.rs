//! The shell of an agent: the command lines that it can run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::string_enum::string_enum;

string_enum! {
    /// Command lines that a shell can run.
    ShellAccess, "a shell access" {
        /// Only command lines whose commands are in the allow list.
        Allowlist = "allowlist",
        /// Every command line.
        Full = "full",
    }
}

string_enum! {
    /// Command lines that require approval.
    #[derive(Default)]
    ShellApproval, "a shell approval" {
        /// None. Command lines that are not allowed fail.
        Never = "off",
        /// Command lines with a command that is not in the allow list.
        #[default]
        Unlisted = "on-miss",
        /// Every command line.
        Always = "always",
    }
}

string_enum! {
    /// Files that command lines work on.
    #[derive(Default)]
    ShellWorkspace, "a shell workspace" {
        /// Files of the agent's workspace.
        #[default]
        Shared = "workspace",
        /// Private files of the session, which are kept between calls.
        Session = "conversation",
    }
}

/// Settings of a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShellSettings {
    /// Command lines that the shell can run.
    #[serde(alias = "which")]
    pub access: ShellAccess,
    /// Command lines that require approval.
    #[serde(alias = "ask")]
    pub approval: ShellApproval,
    /// Rules of the allow list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Files that command lines work on.
    #[serde(alias = "files", default)]
    pub workspace: ShellWorkspace,
}

/// Shell of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentShell {
    /// `true` for the shell of the host, `false` for none.
    Host(bool),
    /// A shell with these settings. Only the process that defined the agent runs it.
    Own(ShellSettings),
}

impl Default for AgentShell {
    fn default() -> Self {
        Self::Host(false)
    }
}
