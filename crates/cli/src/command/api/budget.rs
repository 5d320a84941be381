//! `provost budget`: how much may be spent, and how much was.

use clap::Subcommand;
use provost_api::{BudgetChange, BudgetKey, Period};
use serde_json::json;

use super::listing::ListArgs;
use super::{ApiCommand, parse_word};
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost budget list
  provost budget set namespace 20 --period day          everything together, anew each day
  provost budget set agent:helper 5.50
  provost budget remove agent:helper

A budget is for `namespace`, `agent:<name>`, `session:<id>` or `task:<id>`. A run that would go beyond one waits.";

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
    /// List what may be spent and what was
    #[command(visible_alias = "ls", after_help = "Examples:\n  provost budget list --watch")]
    List(ListArgs),
    /// Set how much may be spent
    #[command(after_help = "Examples:\n  provost budget set namespace 20 --period month\n  \
                      provost budget set session:my-session 0.50")]
    Set {
        /// For whom: namespace, agent:<name>, session:<id>, task:<id>
        scope: String,
        /// Dollars: 0.50
        #[arg(value_name = "USD")]
        cap: String,
        /// When it starts anew: day, month; never if nothing is said
        #[arg(long, value_name = "PERIOD", value_parser = parse_word::<Period>)]
        period: Option<Period>,
    },
    /// Take a bound away
    #[command(after_help = "Examples:\n  provost budget remove agent:helper")]
    Remove {
        /// For whom, as the list names it
        scope: String,
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
                return list.run(show, async || client.budgets(&paging).await).await;
            }
            Action::Set { scope, cap, period } => {
                let cap = super::task::money(cap).map_err(|problem| problem.help("write 0.50"))?;
                let change = BudgetChange { scope: scope.clone(), cap, period: *period };
                let set = client.set_budget(&change).await?;
                let sentence =
                    format!("{scope} may spend {}, and has spent {}", set.cap, set.spent);
                show.done(&set, scope, &sentence)?;
            }
            Action::Remove { scope } => {
                client.remove_budget(&BudgetKey { scope: scope.clone() }).await?;
                show.done(&json!({ "scope": scope }), scope, &format!("{scope} has no bound"))?;
            }
        }
        Ok(0)
    }
}
