//! `provost explain`: why something waits or failed, and what to do.

use provost_api::Explanation;

use super::ApiCommand;
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};
use crate::render::output::printable;
use crate::render::show::Format;

const EXAMPLES: &str = "\
Examples:
  provost explain run_01…                why it waits, or why it failed
  provost explain task_01…
  provost explain appr_01…               what is asked, and of whom
  provost explain my-session             a conversation, by its id
  provost explain run_01… -o json | jq -r .cause";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run, a task, a question, a delivery or a session
    id: String,
    #[command(flatten)]
    remote: ConnectionArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let explanation = cx.client.explain(&self.id).await?;
        match cx.show.format {
            Format::Table => cx.show.write(&text(&explanation, cx.show.output.stdout_color))?,
            _ => cx.show.one(&explanation, &explanation.subject)?,
        }
        Ok(0)
    }
}

fn text(explanation: &Explanation, has_color: bool) -> String {
    let Explanation { subject, state, cause, evidence, next, related, .. } = explanation;
    let (bold, plain) = if has_color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    let mut text = format!("{bold}{}{plain}\n", printable(cause));
    text.push_str(&format!("\n{} is {}\n", printable(subject), printable(state)));
    let wide = evidence.iter().map(|seen| seen.what.len()).max().unwrap_or(0);
    for seen in evidence {
        text.push_str(&format!("  {:<wide$}  {}\n", seen.what, printable(&seen.value)));
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
