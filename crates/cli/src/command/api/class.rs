//! `provost class`: lists execution classes and sets their concurrency limits.

use clap::Subcommand;

use super::ApiCommand;
use super::listing::ListArgs;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost class list
  provost class set CLASS 8               at most eight concurrent runs
  provost class set CLASS 0               pauses the class; active runs continue";

/// Arguments of `provost class`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: ClassCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum ClassCommand {
    /// List execution classes
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost class list --watch")]
    List(ListArgs),
    /// Set the concurrency limit of an execution class
    #[command(after_help = "Examples:\n  provost class set CLASS 8\n  provost class set CLASS 0")]
    Set {
        /// Key of the class as shown by `class list`
        class: String,
        /// Maximum number of concurrent runs; 0 pauses the class
        #[arg(value_name = "LIMIT")]
        desired: u64,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            ClassCommand::List(list) => {
                let paging = list.paging();
                list.run(printer, async || client.execution_classes(&paging).await).await
            }
            ClassCommand::Set { class, desired } => {
                let set = client.set_concurrency_limit(class, *desired).await?;
                let text = format!("{class}: at most {} concurrent runs", set.concurrency_limit);
                printer.print_result(&set, class, &text).map(|()| 0)
            }
        }
    }
}
