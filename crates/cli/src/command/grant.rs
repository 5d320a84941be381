//! `provost grant`: each yes that reaches further than one call.

use std::path::Path;

use clap::Subcommand;
use provost_api::GrantKey;

use super::block_on;
use super::listing::ListArgs;
use crate::output::Output;
use crate::problem::Problem;
use crate::remote::{Missing, Reach, RemoteArgs};
use crate::show::Show;

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
    remote: RemoteArgs,
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

/// Does it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let show = args.remote.show(output);
    block_on(async {
        let reach = args.remote.open(data, Missing::Refuse)?;
        let done = act(&args.action, &reach, &show).await;
        reach.close().await;
        done
    })?
}

async fn act(action: &Action, reach: &Reach, show: &Show) -> Result<u8, Problem> {
    let client = &reach.client;
    match action {
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
