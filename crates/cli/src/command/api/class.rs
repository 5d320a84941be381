//! `provost class`: how many runs may work at once.

use clap::Subcommand;

use super::ApiCommand;
use super::listing::ListArgs;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};

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
    remote: ConnectionArgs,
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

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List(list) => {
                let paging = list.paging();
                list.run(show, async || client.classes(&paging).await).await
            }
            Action::Set { class, desired } => {
                let set = client.set_class_target(class, *desired).await?;
                let sentence = format!("{class}: {} at once", set.desired);
                show.done(&set, class, &sentence).map(|()| 0)
            }
        }
    }
}
