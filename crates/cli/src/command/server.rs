//! `provost server`: how a server is, and who one is there.

use std::path::Path;

use clap::Subcommand;
use provost_core::ErrorKind;
use serde_json::json;

use super::block_on;
use crate::output::Output;
use crate::problem::Problem;
use crate::remote::{Missing, Reach, RemoteArgs};
use crate::show::{Format, Show};

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
    remote: RemoteArgs,
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

/// Does it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let show = args.remote.show(output);
    block_on(async {
        let reach = args.remote.open(data, Missing::Refuse)?;
        let done = match args.action {
            Action::Status => status(&reach, &show).await,
            Action::Whoami => whoami(&reach, &show).await,
            Action::Metrics => metrics(&reach, &show).await,
        };
        reach.close().await;
        done
    })?
}

async fn status(reach: &Reach, show: &Show) -> Result<u8, Problem> {
    let (health, version) = (reach.client.health().await?, reach.client.version().await?);
    let readiness = reach.client.readiness().await?;
    let what = json!({
        "version": version.version, "api": version.api,
        "alive": health.ok, "ready": readiness.ok, "checks": readiness.checks,
    });
    if show.format == Format::Table {
        let mut text = format!("provost {} · API {}\n", version.version, version.api);
        for check in &readiness.checks {
            let mark = if check.ok { '✓' } else { '✗' };
            text.push_str(&format!("{mark} {:<12}  {}\n", check.name, check.detail));
        }
        show.write(&text)?;
    } else {
        show.one(&what, &version.version)?;
    }
    Ok(if health.ok && readiness.ok { 0 } else { ErrorKind::Unavailable.exit_code() })
}

async fn whoami(reach: &Reach, show: &Show) -> Result<u8, Problem> {
    let who = reach.client.who().await?;
    show.one(&who, &who.name)?;
    Ok(0)
}

async fn metrics(reach: &Reach, show: &Show) -> Result<u8, Problem> {
    show.write(&reach.client.metrics().await?)?;
    Ok(0)
}
