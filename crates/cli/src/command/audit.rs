//! `provost audit`: who did what with which tool.

use std::path::Path;

use provost_api::{AuditList, AuditRecord};
use provost_core::{RunId, Timestamp};

use super::block_on;
use super::listing::ListArgs;
use crate::output::Output;
use crate::problem::Problem;
use crate::remote::{Missing, RemoteArgs};
use crate::show::Shown;
use crate::table::{Cell, Column, ago, rigid, text};

const EXAMPLES: &str = "\
Examples:
  provost audit                                   the last calls of governed tools, newest first
  provost audit --outcome denied
  provost audit --tool pay -o jsonl
  provost audit --run run_01…";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    list: ListArgs,
    /// Of this run only
    #[arg(long, value_name = "RUN")]
    run: Option<RunId>,
    /// With this tool only
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// That went this way only: allowed, approval_required, denied, succeeded, failed
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl Shown for AuditRecord {
    const COLUMNS: &'static [Column] =
        &[rigid("WHEN"), rigid("TOOL"), rigid("OUTCOME"), text("AGENT"), text("RUN"), text("WHY")];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let word = |value: Option<&serde_json::Value>| {
            value.and_then(|value| value.as_str()).map(str::to_owned)
        };
        let metadata = self.record.get("metadata");
        vec![
            Cell::from(ago(now, self.at.0)),
            Cell::from(&self.resource),
            Cell::state(&self.outcome),
            Cell::maybe(word(metadata.and_then(|facts| facts.get("agent")))),
            Cell::maybe(self.run.map(|run| run.to_string())),
            Cell::maybe(word(self.record.get("message"))),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

/// Does it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let show = args.remote.show(output);
    let list = AuditList {
        run: args.run,
        resource: args.tool.clone(),
        outcome: args.outcome.clone(),
        limit: args.list.limit,
        cursor: args.list.cursor.clone(),
    };
    block_on(async {
        let reach = args.remote.open(data, Missing::Refuse)?;
        let done = args.list.run(&show, async || reach.client.audit(&list).await).await;
        reach.close().await;
        done
    })?
}
