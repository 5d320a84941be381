//! `provost delivery`: lists, retries and dismisses deliveries to channels.

use clap::Subcommand;
use provost_api::DeliveryQuery;
use provost_core::lifecycle::DeliveryState;
use provost_core::{DeliveryId, RunId};

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost delivery list --state failed
  provost delivery get dlv_01…
  provost delivery retry dlv_01…          send it again
  provost delivery dismiss dlv_01…        gives the delivery up
  provost explain dlv_01…                why the delivery is pending or failed";

/// Arguments of `provost delivery`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: DeliveryCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum DeliveryCommand {
    /// List deliveries, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost delivery list --state failed --watch\n  provost delivery list --run run_01…"
    )]
    List {
        /// Only deliveries in this state
        #[arg(long)]
        state: Option<DeliveryState>,
        /// Only deliveries of this run
        #[arg(long)]
        run: Option<RunId>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a delivery
    #[command(after_help = "Examples:\n  provost delivery get dlv_01… -o yaml")]
    Get {
        /// Id of the delivery
        delivery: DeliveryId,
    },
    /// Send a delivery again; the channel may receive it twice
    #[command(after_help = "Examples:\n  provost delivery retry dlv_01…")]
    Retry {
        /// Id of the delivery
        delivery: DeliveryId,
    },
    /// Give up a delivery
    #[command(after_help = "Examples:\n  provost delivery dismiss dlv_01…")]
    Dismiss {
        /// Id of the delivery
        delivery: DeliveryId,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            DeliveryCommand::List { state, run, list } => {
                let query = DeliveryQuery {
                    state: *state,
                    run: *run,
                    limit: list.limit,
                    cursor: list.cursor.clone(),
                };
                return list.run(printer, async || client.deliveries(&query).await).await;
            }
            DeliveryCommand::Get { delivery } => {
                printer.print_details(&client.delivery(*delivery).await?, &delivery.to_string())?;
            }
            DeliveryCommand::Retry { delivery } => {
                let sent = client.retry_delivery(*delivery).await?;
                printer.print_result(
                    &sent,
                    &delivery.to_string(),
                    &format!("retrying {delivery}"),
                )?;
            }
            DeliveryCommand::Dismiss { delivery } => {
                let dismissed = client.dismiss_delivery(*delivery).await?;
                printer.print_result(
                    &dismissed,
                    &delivery.to_string(),
                    &format!("dismissed {delivery}"),
                )?;
            }
        }
        Ok(0)
    }
}
