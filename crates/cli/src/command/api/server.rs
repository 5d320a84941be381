//! `provost server`: shows the status of a server and the caller's identity.

use clap::Subcommand;
use provost_core::ErrorKind;
use serde_json::json;

use super::ApiCommand;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::Format;

const EXAMPLES: &str = "\
Examples:
  provost server status                  version, health and readiness checks
  provost server whoami                  scopes and namespaces of this token
  provost server metrics | grep provost_runs";

/// Arguments of `provost server`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ServerCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum ServerCommand {
    /// Show version, health and readiness; exits with 9 if the server is not ready
    #[command(
        after_help = "Examples:\n  provost server status\n  provost server status -o json | jq .ready"
    )]
    Status,
    /// Show the name, scopes and namespaces of the token
    #[command(after_help = "Examples:\n  provost server whoami -o yaml")]
    Whoami,
    /// Print metrics in the Prometheus format
    #[command(after_help = "Examples:\n  provost server metrics")]
    Metrics,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        match self.action {
            ServerCommand::Status => status(cx).await,
            ServerCommand::Whoami => whoami(cx).await,
            ServerCommand::Metrics => metrics(cx).await,
        }
    }
}

/// Prints whether the server is healthy and ready, with its version.
async fn status(cx: &Connection) -> Result<u8, CliError> {
    let (health, version) = (cx.client.health().await?, cx.client.version().await?);
    let readiness = cx.client.readiness().await?;
    let status = json!({
        "version": version.version, "api": version.api,
        "alive": health.ok, "ready": readiness.ok, "checks": readiness.checks,
    });
    if cx.printer.format == Format::Table {
        let mut text = format!("provost {} · API {}\n", version.version, version.api);
        for check in &readiness.checks {
            let mark = if check.ok { '✓' } else { '✗' };
            text.push_str(&format!("{mark} {:<12}  {}\n", check.name, check.detail));
        }
        cx.printer.write(&text)?;
    } else {
        cx.printer.print_details(&status, &version.version)?;
    }
    Ok(if health.ok && readiness.ok { 0 } else { ErrorKind::Unavailable.exit_code() })
}

/// Prints the identity of the caller.
async fn whoami(cx: &Connection) -> Result<u8, CliError> {
    let principal = cx.client.identity().await?;
    cx.printer.print_details(&principal, &principal.name)?;
    Ok(0)
}

async fn metrics(cx: &Connection) -> Result<u8, CliError> {
    cx.printer.write(&cx.client.metrics().await?)?;
    Ok(0)
}
