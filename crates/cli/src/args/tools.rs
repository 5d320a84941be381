//! Arguments of declared tools.

use std::path::PathBuf;

use provost_host::tool::{Shell, ToolConfig, ToolNetwork};

use super::ContainerArgs;
use crate::error::CliError;

/// Networks that declared tools can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ToolNetworkArg {
    /// The public internet, over TLS
    #[default]
    Public,
    /// Also without TLS; private networks if the tool declares `allow_private`
    Private,
    /// Also this machine
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

/// Arguments of declared tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
#[command(next_help_heading = "Declared tools")]
pub(crate) struct ToolArgs {
    /// File or directory of manifests: agents, tools, roles, rules and MCP servers, in YAML or JSON
    #[arg(long, alias = "resources", value_name = "PATH")]
    pub(crate) manifests: Option<PathBuf>,
    /// Networks that declared tools can reach
    #[arg(long, value_enum, default_value_t, value_name = "NETWORK")]
    pub(crate) tool_network: ToolNetworkArg,
    /// Program that declared MCP servers and `cli` tools can start, exactly as declared; repeatable
    #[arg(long, value_name = "COMMAND")]
    pub(crate) allow_command: Vec<String>,
    /// Directory with one file per secret, read after the database and the environment
    #[arg(long, value_name = "DIR")]
    pub(crate) secrets_dir: Option<PathBuf>,
    /// Containers of declared programs.
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
}

impl ToolArgs {
    /// Returns the tool configuration of a process whose agents have this shell.
    pub(crate) fn config(&self, shell: Option<Shell>) -> Result<ToolConfig, CliError> {
        Ok(ToolConfig {
            manifests: self.manifests.clone(),
            network: self.tool_network.into(),
            commands: self.allow_command.clone(),
            secrets_dir: self.secrets_dir.clone(),
            container: self.container.options()?,
            applies_manifests: false,
            shell,
            callbacks: None,
        })
    }
}
