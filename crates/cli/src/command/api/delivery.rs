//! `provost delivery`: answers on their way out to a channel.

use clap::Subcommand;
use provost_api::DeliveryList;
use provost_core::lifecycle::DeliveryState;
use provost_core::{DeliveryId, RunId};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost delivery list --state failed
  provost delivery get dlv_01…
  provost delivery retry dlv_01…          send it again
  provost delivery dismiss dlv_01…        put it away
  provost explain dlv_01…                 why it has not arrived";

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
    /// List answers on their way out, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost delivery list --state failed --watch\n  provost delivery list --run run_01…"
    )]
    List {
        /// Only in this state, as the list names it
        #[arg(long)]
        state: Option<DeliveryState>,
        /// Only of this run
        #[arg(long)]
        run: Option<RunId>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show everything about one
    #[command(after_help = "Examples:\n  provost delivery get dlv_01… -o yaml")]
    Get {
        /// The delivery
        delivery: DeliveryId,
    },
    /// Send an answer again; if it had arrived after all, it arrives twice
    #[command(after_help = "Examples:\n  provost delivery retry dlv_01…")]
    Retry {
        /// The delivery
        delivery: DeliveryId,
    },
    /// Put an answer away that has not arrived
    #[command(after_help = "Examples:\n  provost delivery dismiss dlv_01…")]
    Dismiss {
        /// The delivery
        delivery: DeliveryId,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List { state, run, list } => {
                let asked = DeliveryList {
                    state: *state,
                    run: *run,
                    limit: list.limit,
                    cursor: list.cursor.clone(),
                };
                return list.run(show, async || client.deliveries(&asked).await).await;
            }
            Action::Get { delivery } => {
                show.one(&client.delivery(*delivery).await?, &delivery.to_string())?;
            }
            Action::Retry { delivery } => {
                let sent = client.retry_delivery(*delivery).await?;
                show.done(&sent, &delivery.to_string(), &format!("{delivery} is sent again"))?;
            }
            Action::Dismiss { delivery } => {
                let put_away = client.dismiss_delivery(*delivery).await?;
                show.done(&put_away, &delivery.to_string(), &format!("{delivery} is put away"))?;
            }
        }
        Ok(0)
    }
}
