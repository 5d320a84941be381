//! `provost audit`: who did what with which tool.

use provost_api::{AuditList, AuditRecord};
use provost_core::{RunId, Timestamp};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::Shown;
use crate::render::table::{Cell, Column, ago, rigid, text};

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
    remote: ConnectionArgs,
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

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let list = AuditList {
            run: self.run,
            resource: self.tool.clone(),
            outcome: self.outcome.clone(),
            limit: self.list.limit,
            cursor: self.list.cursor.clone(),
        };
        self.list.run(&cx.show, async || cx.client.audit(&list).await).await
    }
}
