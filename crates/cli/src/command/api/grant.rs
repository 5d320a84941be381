//! `provost grant`: lists and revokes standing approvals.

use clap::Subcommand;
use provost_api::StandingApprovalKey;

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost grant list
  provost grant revoke session:my-session CALL      requires approval again

A grant is created by `provost approval approve appr_01… --scope run|session|always`.";

/// Arguments of `provost grant`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: GrantCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum GrantCommand {
    /// List standing approvals
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost grant list -o json")]
    List(ListArgs),
    /// Revoke a standing approval
    #[command(after_help = "Examples:\n  provost grant revoke agent:helper CALL")]
    Revoke {
        /// Scope as shown by `grant list`
        scope: String,
        /// Call key as shown by `grant list`
        #[arg(value_name = "CALL")]
        call_key: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            GrantCommand::List(list) => {
                let paging = list.paging();
                list.run(printer, async || client.standing_approvals(&paging).await).await
            }
            GrantCommand::Revoke { scope, call_key } => {
                let key = StandingApprovalKey { scope: scope.clone(), call_key: call_key.clone() };
                client.revoke_standing_approval(&key).await?;
                let text = format!("revoked: {call_key} of {scope} requires approval again");
                printer.print_result(&key, &format!("{scope} {call_key}"), &text)?;
                Ok(0)
            }
        }
    }
}
