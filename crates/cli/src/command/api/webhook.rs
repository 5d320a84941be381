//! `provost webhook`: manages webhooks and their deliveries.

use clap::Subcommand;
use provost_api::{CreatedWebhook, NewWebhook};
use serde_json::json;

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::Format;

const EXAMPLES: &str = "\
Examples:
  provost webhook create https://example.com/hook --kind finished --kind failed
  provost webhook list
  provost webhook deliveries whk_01…                   newest first
  provost webhook redeliver whk_01… whp_01…
  provost webhook delete whk_01…

The signing key is shown only once. On the server's machine, create webhooks while `provost serve` runs.";

/// Arguments of `provost webhook`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: WebhookCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    /// Create a webhook; its signing key is shown only once
    #[command(after_help = "Examples:\n  provost webhook create https://example.com/hook\n  \
                      provost webhook create https://example.com/hook --kind finished -o json | jq -r .secret")]
    Create {
        /// URL that receives the events; https only
        url: String,
        /// Only events of this kind; repeatable; default: all kinds
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
    },
    /// List webhooks
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost webhook list -o name")]
    List(ListArgs),
    /// Show a webhook
    #[command(after_help = "Examples:\n  provost webhook get whk_01… -o yaml")]
    Get {
        /// Id of the webhook
        webhook: String,
    },
    /// Delete a webhook
    #[command(after_help = "Examples:\n  provost webhook delete whk_01…")]
    Delete {
        /// Id of the webhook
        webhook: String,
    },
    /// List the deliveries of a webhook, newest first
    #[command(
        alias = "posts",
        after_help = "Examples:\n  provost webhook deliveries whk_01… --watch\n  \
                      provost webhook deliveries whk_01… -o json"
    )]
    Deliveries {
        /// Id of the webhook
        webhook: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Send a delivery again, with the same id
    #[command(
        alias = "resend",
        after_help = "Examples:\n  provost webhook redeliver whk_01… whp_01…"
    )]
    Redeliver {
        /// Id of the webhook
        webhook: String,
        /// Id of the delivery as shown by `webhook deliveries`
        delivery: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            WebhookCommand::Create { url, kind } => {
                let new = NewWebhook { url: url.clone(), kinds: kind.clone() };
                let created = client.create_webhook(&new).await?;
                let CreatedWebhook { webhook, secret } = &created;
                printer.print_result(&created, &webhook.id, secret)?;
                if printer.format == Format::Table {
                    printer.output.note(&format!(
                        "the signing key of {} is shown only once: store it safely",
                        webhook.id
                    ));
                }
            }
            WebhookCommand::List(list) => {
                let paging = list.paging();
                return list.run(printer, async || client.webhooks(&paging).await).await;
            }
            WebhookCommand::Get { webhook } => {
                printer.print_details(&client.webhook(webhook).await?, webhook)?
            }
            WebhookCommand::Delete { webhook } => {
                client.delete_webhook(webhook).await?;
                let text = format!("webhook {webhook} deleted");
                printer.print_result(&json!({ "id": webhook }), webhook, &text)?;
            }
            WebhookCommand::Deliveries { webhook, list } => {
                let paging = list.paging();
                return list
                    .run(printer, async || client.webhook_deliveries(webhook, &paging).await)
                    .await;
            }
            WebhookCommand::Redeliver { webhook, delivery } => {
                let sent = client.resend_webhook_delivery(webhook, delivery).await?;
                printer.print_result(&sent, &sent.id, &format!("redelivering {delivery}"))?;
            }
        }
        Ok(0)
    }
}
