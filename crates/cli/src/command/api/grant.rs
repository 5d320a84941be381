//! `provost grant`: each yes that reaches further than one call.

use clap::Subcommand;
use provost_api::GrantKey;

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost grant list
  provost grant revoke session:my-session CALL      it is asked about again

A grant comes from `provost approve appr_01… --for run|session|always`.";

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
    /// List what may run without asking again
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost grant list -o json")]
    List(ListArgs),
    /// Take a yes back
    #[command(after_help = "Examples:\n  provost grant revoke agent:helper CALL")]
    Revoke {
        /// For whom, as the list names it
        scope: String,
        /// For which call, as the list names it
        #[arg(value_name = "CALL")]
        call_key: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List(list) => {
                let paging = list.paging();
                list.run(show, async || client.grants(&paging).await).await
            }
            Action::Revoke { scope, call_key } => {
                let key = GrantKey { scope: scope.clone(), call_key: call_key.clone() };
                client.revoke_grant(&key).await?;
                let sentence = format!("{call_key} of {scope} is asked about again");
                show.done(&key, &format!("{scope} {call_key}"), &sentence)?;
                Ok(0)
            }
        }
    }
}
