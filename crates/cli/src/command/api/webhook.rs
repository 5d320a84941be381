//! `provost webhook`: who is told what happens, and what was told.

use clap::Subcommand;
use provost_api::{NewWebhook, WebhookCreated};
use serde_json::json;

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::Format;

const EXAMPLES: &str = "\
Examples:
  provost webhook create https://example.com/hook --kind finished --kind failed
  provost webhook list
  provost webhook posts whk_01…                        what was told, newest first
  provost webhook resend whk_01… whp_01…
  provost webhook delete whk_01…

The key that signs posts is shown once; on the server's own machine only a running `provost serve` makes one.";

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
    /// Tell an address what happens from now on; the key that signs is shown this once
    #[command(after_help = "Examples:\n  provost webhook create https://example.com/hook\n  \
                      provost webhook create https://example.com/hook --kind finished -o json | jq -r .secret")]
    Create {
        /// Where to post: https only
        url: String,
        /// Only events of this kind; may be given several times; all of them if nothing is said
        #[arg(long, value_name = "KIND")]
        kind: Vec<String>,
    },
    /// List webhooks
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost webhook list -o name")]
    List(ListArgs),
    /// Show a webhook
    #[command(after_help = "Examples:\n  provost webhook get whk_01… -o yaml")]
    Get {
        /// The webhook
        webhook: String,
    },
    /// Tell an address nothing more
    #[command(after_help = "Examples:\n  provost webhook delete whk_01…")]
    Delete {
        /// The webhook
        webhook: String,
    },
    /// Show what was told to an address, newest first
    #[command(
        after_help = "Examples:\n  provost webhook posts whk_01… --watch\n  provost webhook posts whk_01… -o json"
    )]
    Posts {
        /// The webhook
        webhook: String,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Tell an address once more; it has the same id as before
    #[command(after_help = "Examples:\n  provost webhook resend whk_01… whp_01…")]
    Resend {
        /// The webhook
        webhook: String,
        /// What to tell again, as the list of posts names it
        post: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::Create { url, kind } => {
                let new = NewWebhook { url: url.clone(), kinds: kind.clone() };
                let created = client.create_webhook(&new).await?;
                let WebhookCreated { webhook, secret } = &created;
                show.done(&created, &webhook.id, secret)?;
                if show.format == Format::Table {
                    let told =
                        format!("the key of {} is shown this once: keep it safe", webhook.id);
                    show.output.dim(&told);
                }
            }
            Action::List(list) => {
                let paging = list.paging();
                return list.run(show, async || client.webhooks(&paging).await).await;
            }
            Action::Get { webhook } => show.one(&client.webhook(webhook).await?, webhook)?,
            Action::Delete { webhook } => {
                client.delete_webhook(webhook).await?;
                let sentence = format!("{webhook} is told nothing more");
                show.done(&json!({ "id": webhook }), webhook, &sentence)?;
            }
            Action::Posts { webhook, list } => {
                let paging = list.paging();
                return list.run(show, async || client.webhook_posts(webhook, &paging).await).await;
            }
            Action::Resend { webhook, post } => {
                let again = client.resend_webhook_post(webhook, post).await?;
                show.done(&again, &again.id, &format!("{post} is told once more"))?;
            }
        }
        Ok(0)
    }
}
