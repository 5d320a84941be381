//! `provost server`: how a server is, and who one is there.

use clap::Subcommand;
use provost_core::ErrorKind;
use serde_json::json;

use super::ApiCommand;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::Format;

const EXAMPLES: &str = "\
Examples:
  provost server status                  version, health, and what was looked at
  provost server whoami                  what this token may do, and where
  provost server metrics | grep provost_runs";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show whether it is alive and can work; exits with 9 if it cannot
    #[command(
        after_help = "Examples:\n  provost server status\n  provost server status -o json | jq .ready"
    )]
    Status,
    /// Show whose token this is and what it may do
    #[command(after_help = "Examples:\n  provost server whoami -o yaml")]
    Whoami,
    /// Print the numbers for Prometheus
    #[command(after_help = "Examples:\n  provost server metrics")]
    Metrics,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        match self.action {
            Action::Status => status(cx).await,
            Action::Whoami => whoami(cx).await,
            Action::Metrics => metrics(cx).await,
        }
    }
}

async fn status(cx: &Connection) -> Result<u8, Problem> {
    let (health, version) = (cx.client.health().await?, cx.client.version().await?);
    let readiness = cx.client.readiness().await?;
    let what = json!({
        "version": version.version, "api": version.api,
        "alive": health.ok, "ready": readiness.ok, "checks": readiness.checks,
    });
    if cx.show.format == Format::Table {
        let mut text = format!("provost {} · API {}\n", version.version, version.api);
        for check in &readiness.checks {
            let mark = if check.ok { '✓' } else { '✗' };
            text.push_str(&format!("{mark} {:<12}  {}\n", check.name, check.detail));
        }
        cx.show.write(&text)?;
    } else {
        cx.show.one(&what, &version.version)?;
    }
    Ok(if health.ok && readiness.ok { 0 } else { ErrorKind::Unavailable.exit_code() })
}

async fn whoami(cx: &Connection) -> Result<u8, Problem> {
    let who = cx.client.who().await?;
    cx.show.one(&who, &who.name)?;
    Ok(0)
}

async fn metrics(cx: &Connection) -> Result<u8, Problem> {
    cx.show.write(&cx.client.metrics().await?)?;
    Ok(0)
}
