//! `provost audit`: lists audit records of tool calls.

use provost_api::{AuditQuery, AuditRecord};
use provost_core::{RunId, Timestamp};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::TableRow;
use crate::render::table::{Cell, Column, ago, fixed, flexible};

const EXAMPLES: &str = "\
Examples:
  provost audit                                   newest tool calls first
  provost audit --outcome denied
  provost audit --tool pay -o jsonl
  provost audit --run run_01…";

/// Arguments of `provost audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    list: ListArgs,
    /// Only records of this run
    #[arg(long, value_name = "RUN")]
    run: Option<RunId>,
    /// Only records of this tool
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
    /// Only this outcome: allowed, approval_required, denied, succeeded, failed
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl TableRow for AuditRecord {
    const COLUMNS: &'static [Column] = &[
        fixed("WHEN"),
        fixed("TOOL"),
        fixed("OUTCOME"),
        flexible("AGENT"),
        flexible("RUN"),
        flexible("REASON"),
    ];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let string = |value: Option<&serde_json::Value>| {
            value.and_then(|value| value.as_str()).map(str::to_owned)
        };
        let metadata = self.record.get("metadata");
        vec![
            Cell::from(ago(now, self.at.0)),
            Cell::from(&self.resource),
            Cell::state(&self.outcome),
            Cell::optional(string(metadata.and_then(|metadata| metadata.get("agent")))),
            Cell::optional(self.run.map(|run| run.to_string())),
            Cell::optional(string(self.record.get("message"))),
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

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let list = AuditQuery {
            run: self.run,
            resource: self.tool.clone(),
            outcome: self.outcome.clone(),
            limit: self.list.limit,
            cursor: self.list.cursor.clone(),
        };
        self.list.run(&cx.printer, async || cx.client.audit(&list).await).await
    }
}
