//! `provost token`: who may call the server.

use std::time::Duration;

use clap::Subcommand;
use provost_api::{NewToken, Scope, Time, TokenCreated};
use provost_core::Env;
use serde_json::json;

use super::listing::ListArgs;
use super::{ApiCommand, parse_duration};
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::show::Format;

const EXAMPLES: &str = "\
Examples:
  provost token create ci --scope read --scope write --only team-a
  provost token create ops --scope admin --expires 720h
  provost token create ci --scope read -o json | jq -r .secret
  provost token list
  provost token revoke tok_01…

On the server's own machine no token is needed to make one: leave --server out.";

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
    /// Make a token; its secret is shown this once
    #[command(after_help = "Examples:\n  provost token create ci --scope read --scope write")]
    Create {
        /// A name for people: it is shown as the author of answers
        name: String,
        /// What it may do: read, write, approve, admin; may be given several times
        #[arg(long, value_name = "SCOPE", required = true)]
        scope: Vec<Scope>,
        /// Only in this namespace; may be given several times; everywhere if nothing is said
        #[arg(long, value_name = "NAMESPACE")]
        only: Vec<String>,
        /// When it ends: 24h, 720h; never if nothing is said
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// List tokens, without their secrets
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost token list")]
    List(ListArgs),
    /// Take a token back
    #[command(after_help = "Examples:\n  provost token revoke tok_01…")]
    Revoke {
        /// The token's id, as the list shows it
        // Not `token`: that is the name of the global flag, which would take its value.
        #[arg(value_name = "TOKEN")]
        id: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::Create { name, scope, only, expires } => {
                let namespaces = if only.is_empty() { vec!["*".to_owned()] } else { only.clone() };
                let expires = expires.map(|time| Time(Env::system().now().after(time)));
                let new =
                    NewToken { name: name.clone(), scopes: scope.clone(), namespaces, expires };
                let created = client.create_token(&new).await?;
                let TokenCreated { token, secret } = &created;
                show.done(&created, &token.id, secret)?;
                if show.format == Format::Table {
                    show.output.dim(&format!("{} is shown this once: keep it safe", token.id));
                }
            }
            Action::List(list) => {
                let paging = list.paging();
                return list.run(show, async || client.tokens(&paging).await).await;
            }
            Action::Revoke { id } => {
                client.revoke_token(id).await?;
                let sentence = format!("{id} opens nothing any more");
                show.done(&json!({ "id": id }), id, &sentence)?;
            }
        }
        Ok(0)
    }
}
