//! `provost token`: creates, lists and revokes API tokens.

use std::time::Duration;

use clap::Subcommand;
use provost_api::{CreatedToken, DateTime, NewToken, Scope};
use provost_core::Env;
use serde_json::json;

use super::listing::ListArgs;
use super::{ApiCommand, parse_duration};
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::printer::Format;

const EXAMPLES: &str = "\
Examples:
  provost token create ci --scope read --scope write --allow-namespace team-a
  provost token create ops --scope admin --expires 720h
  provost token create ci --scope read -o json | jq -r .secret
  provost token list
  provost token revoke tok_01…

On the server's machine, omit --server: the command then needs no token.";

/// Arguments of `provost token`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: TokenCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token; its secret is shown only once
    #[command(after_help = "Examples:\n  provost token create ci --scope read --scope write")]
    Create {
        /// Display name, recorded as the author of approvals
        name: String,
        /// Permission: read, write, approve, admin; repeatable
        #[arg(long, value_name = "SCOPE", required = true)]
        scope: Vec<Scope>,
        /// Namespace that the token can access; repeatable; default: all namespaces
        #[arg(long, alias = "only", value_name = "NAMESPACE")]
        allow_namespace: Vec<String>,
        /// Lifetime: 24h, 720h; default: unlimited
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// List tokens, without their secrets
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost token list")]
    List(ListArgs),
    /// Revoke a token
    #[command(after_help = "Examples:\n  provost token revoke tok_01…")]
    Revoke {
        /// Id of the token as shown by `token list`
        // The id of the argument is not `token`, because the global flag of that name would receive its value.
        #[arg(value_name = "TOKEN")]
        id: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            TokenCommand::Create { name, scope, allow_namespace, expires } => {
                let namespaces = match allow_namespace.as_slice() {
                    [] => vec!["*".to_owned()],
                    namespaces => namespaces.to_owned(),
                };
                let expires = expires.map(|time| DateTime(Env::system().now().after(time)));
                let new =
                    NewToken { name: name.clone(), scopes: scope.clone(), namespaces, expires };
                let created = client.create_token(&new).await?;
                let CreatedToken { token, secret } = &created;
                printer.print_result(&created, &token.id, secret)?;
                if printer.format == Format::Table {
                    printer.output.note(&format!(
                        "the secret of {} is shown only once: store it safely",
                        token.id
                    ));
                }
            }
            TokenCommand::List(list) => {
                let paging = list.paging();
                return list.run(printer, async || client.tokens(&paging).await).await;
            }
            TokenCommand::Revoke { id } => {
                client.revoke_token(id).await?;
                let text = format!("token {id} revoked");
                printer.print_result(&json!({ "id": id }), id, &text)?;
            }
        }
        Ok(0)
    }
}
