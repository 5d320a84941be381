//! The arguments about declared tools.

use std::path::PathBuf;

use provost_host::tool::{Shell, ToolConfig, ToolNetwork};

use super::ContainerArgs;
use crate::problem::Problem;

/// Where declared tools may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ToolNetworkArg {
    /// On the public internet, over TLS
    #[default]
    Public,
    /// Also without TLS, and in the private network those that declare `allow_private`
    Private,
    /// Also on this machine
    Local,
}

impl From<ToolNetworkArg> for ToolNetwork {
    fn from(network: ToolNetworkArg) -> Self {
        match network {
            ToolNetworkArg::Public => Self::Public,
            ToolNetworkArg::Private => Self::Private,
            ToolNetworkArg::Local => Self::Local,
        }
    }
}

/// What the command line says about declared tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
#[command(next_help_heading = "Declared tools")]
pub(crate) struct ToolArgs {
    /// A file or a directory of agents, tools, roles, rules and MCP servers, in YAML or JSON
    #[arg(long, value_name = "PATH")]
    pub(crate) resources: Option<PathBuf>,
    /// Where declared tools may be
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    pub(crate) tool_network: ToolNetworkArg,
    /// A program that declared MCP servers and `cli` tools may start, written as it is there; can be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) allow_command: Vec<String>,
    /// A directory with secrets, a file for each, looked at after the database and the environment
    #[arg(long, value_name = "DIR")]
    pub(crate) secrets_dir: Option<PathBuf>,
    /// Containers for declared programs
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
}

impl ToolArgs {
    /// The configuration of the tools of a process whose agents have these roles and this shell.
    pub(crate) fn config(
        &self,
        roles: Vec<String>,
        shell: Option<Shell>,
    ) -> Result<ToolConfig, Problem> {
        Ok(ToolConfig {
            resources: self.resources.clone(),
            network: self.tool_network.into(),
            commands: self.allow_command.clone(),
            secrets_dir: self.secrets_dir.clone(),
            container: self.container.options()?,
            roles,
            shell,
            callbacks: None,
        })
    }
}
