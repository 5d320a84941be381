//! `provost budget`: lists and sets spending limits.

use clap::Subcommand;
use provost_api::{BudgetChange, BudgetKey, BudgetPeriod};
use serde_json::json;

use super::listing::ListArgs;
use super::{ApiCommand, parse_variant};
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost budget list
  provost budget set namespace 20 --period day          total of the namespace, reset each day
  provost budget set agent:helper 5.50
  provost budget remove agent:helper

The scope is `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`. A run that would exceed a budget waits.";

/// Arguments of `provost budget`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: BudgetCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum BudgetCommand {
    /// List budgets with their limit and the amount spent
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost budget list --watch")]
    List(ListArgs),
    /// Create or change a budget
    #[command(after_help = "Examples:\n  provost budget set namespace 20 --period month\n  \
                      provost budget set session:my-session 0.50")]
    Set {
        /// Scope: namespace, agent:<name>, session:<id>, task:<id>
        scope: String,
        /// Limit in US dollars, such as 0.50
        #[arg(value_name = "USD")]
        cap: String,
        /// Period after which the amount spent is reset: day, month; default: never
        #[arg(long, value_name = "PERIOD", value_parser = parse_variant::<BudgetPeriod>)]
        period: Option<BudgetPeriod>,
    },
    /// Remove a budget
    #[command(after_help = "Examples:\n  provost budget remove agent:helper")]
    Remove {
        /// Scope as shown by `budget list`
        scope: String,
    },
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            BudgetCommand::List(list) => {
                let paging = list.paging();
                return list.run(printer, async || client.budgets(&paging).await).await;
            }
            BudgetCommand::Set { scope, cap, period } => {
                let cap = super::task::money(cap).map_err(|problem| problem.hint("write 0.50"))?;
                let change = BudgetChange { scope: scope.clone(), cap, period: *period };
                let set = client.set_budget(&change).await?;
                let text = format!("{scope}: limit {}, spent {}", set.cap, set.spent);
                printer.print_result(&set, scope, &text)?;
            }
            BudgetCommand::Remove { scope } => {
                client.remove_budget(&BudgetKey { scope: scope.clone() }).await?;
                printer.print_result(
                    &json!({ "scope": scope }),
                    scope,
                    &format!("removed the budget of {scope}"),
                )?;
            }
        }
        Ok(0)
    }
}
