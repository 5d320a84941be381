//! `provost explain`: shows why a run, task, approval, delivery or session is waiting or failed, and the next commands.

use provost_api::Explanation;

use super::ApiCommand;
use crate::error::CliError;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::output::printable;
use crate::render::printer::Format;

const EXAMPLES: &str = "\
Examples:
  provost explain run_01…                why the run is waiting or failed
  provost explain task_01…
  provost explain appr_01…               the request and its approvers
  provost explain my-session             a session, by its id
  provost explain run_01… -o json | jq -r .cause";

/// Arguments of `provost explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Id of a run, task, approval, delivery or session
    id: String,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let explanation = cx.client.explain(&self.id).await?;
        match cx.printer.format {
            Format::Table => {
                cx.printer.write(&text(&explanation, cx.printer.output.stdout_color))?
            }
            _ => cx.printer.print_details(&explanation, &explanation.subject)?,
        }
        Ok(0)
    }
}

/// Formats an explanation for a terminal.
fn text(explanation: &Explanation, has_color: bool) -> String {
    let Explanation { subject, state, cause, evidence, next, related, .. } = explanation;
    let (bold, plain) = if has_color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = format!("{bold}{}{plain}\n", printable(cause));
    text.push_str(&format!("\n{} is {}\n", printable(subject), printable(state)));
    let width = evidence.iter().map(|item| item.what.len()).max().unwrap_or(0);
    for item in evidence {
        text.push_str(&format!("  {:<width$}  {}\n", item.what, printable(&item.value)));
    }
    if !related.is_empty() {
        text.push_str(&format!("  see also: {}\n", printable(&related.join(", "))));
    }
    if !next.is_empty() {
        text.push('\n');
    }
    for step in next {
        text.push_str(&format!("→ {}\n  {}\n", printable(&step.command), printable(&step.why)));
    }
    text
}

#[cfg(test)]
mod tests {
    use provost_api::{Evidence, NextStep};

    use super::*;

    #[test]
    fn the_cause_is_the_first_line_and_the_command_the_last() {
        let explanation = Explanation {
            subject: "run_1".to_owned(),
            state: "parked".to_owned(),
            code: "parked_approval".to_owned(),
            cause: "it waits for a yes\x1b[2J".to_owned(),
            evidence: vec![Evidence { what: "asked".to_owned(), value: "2m ago".to_owned() }],
            next: vec![NextStep { command: "provost approve a".to_owned(), why: "go".to_owned() }],
            related: Vec::new(),
        };
        let shown = text(&explanation, false);
        assert_eq!(
            shown,
            "it waits for a yes[2J\n\nrun_1 is parked\n  asked  2m ago\n\n→ provost approve a\n  go\n"
        );
    }
}
