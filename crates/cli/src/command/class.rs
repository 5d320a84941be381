//! `provost class`: how many runs may work at once.

use std::path::Path;

use clap::Subcommand;

use super::block_on;
use super::listing::ListArgs;
use crate::output::Output;
use crate::problem::Problem;
use crate::remote::{Missing, RemoteArgs};

const EXAMPLES: &str = "\
Examples:
  provost class list
  provost class set CLASS 8               eight runs at once
  provost class set CLASS 0               pause it; what is under way goes on";

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
    /// List scheduling classes
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost class list --watch")]
    List(ListArgs),
    /// Set how many runs of a class may work at once
    #[command(after_help = "Examples:\n  provost class set CLASS 8\n  provost class set CLASS 0")]
    Set {
        /// The class, as the list names it
        class: String,
        /// How many; 0 pauses it
        desired: u64,
    },
}

/// Does it.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let show = args.remote.show(output);
    block_on(async {
        let reach = args.remote.open(data, Missing::Refuse)?;
        let client = &reach.client;
        let done = match &args.action {
            Action::List(list) => {
                let paging = list.paging();
                list.run(&show, async || client.classes(&paging).await).await
            }
            Action::Set { class, desired } => {
                match client.set_class_target(class, *desired).await {
                    Ok(set) => {
                        let sentence = format!("{class}: {} at once", set.desired);
                        show.done(&set, class, &sentence).map(|()| 0)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        };
        reach.close().await;
        done
    })?
}
