//! `provost session`: conversations and what was said in them.

use std::path::Path;

use clap::Subcommand;
use provost_api::{Paging, SessionList};

use super::block_on;
use super::listing::ListArgs;
use crate::output::Output;
use crate::problem::Problem;
use crate::remote::{Missing, Reach, RemoteArgs};
use crate::show::{Format, Show};

const EXAMPLES: &str = "\
Examples:
  provost session list
  provost session show my-session
  provost session show my-session -o json";

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
    /// List conversations
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost session list --agent helper\n  provost session list --watch"
    )]
    List {
        /// Only with this agent
        #[arg(long)]
        agent: Option<String>,
        /// Only with this key
        #[arg(long)]
        key: Option<String>,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show a conversation and what was said in it
    #[command(after_help = "Examples:\n  provost session show my-session --limit 20")]
    Show {
        /// The session
        session: String,
        #[command(flatten)]
        list: ListArgs,
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
        Action::List { agent, key, list } => {
            let asked = SessionList {
                agent: agent.clone(),
                key: key.clone(),
                limit: list.limit,
                cursor: list.cursor.clone(),
            };
            list.run(show, async || client.sessions(&asked).await).await
        }
        Action::Show { session, list } => {
            let found = client.session(session).await?;
            if show.format == Format::Table {
                show.one(&found, session)?;
                show.write("\n")?;
            }
            let paging: Paging = list.paging();
            list.run(show, async || client.session_messages(session, &paging).await).await
        }
    }
}
