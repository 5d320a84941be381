//! `provost run`: one question, one answer.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use provost_core::ErrorKind;

use super::{AgentArgs, block_on};
use crate::boot::{self, Boot};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::plain::{Approver, Desk, Ended, Printer, Style, drive};
use crate::problem::{self, Problem};
use crate::stdin::{self, Lines};

/// Pause of the demo model before each word, on a terminal.
const DEMO_PACE: Duration = Duration::from_millis(12);

const EXAMPLES: &str = "\
Examples:
  provost run \"what is (2 + 3) * 4?\"
  provost run --model ollama/llama3.2 \"why is the sky blue?\"
  provost run \"Summarise this\" < notes.txt
  git diff | provost run --system \"Review this diff.\" -
  provost run --json --timeout 30s \"what time is it?\" | jq -r .type
  provost run --yes \"save a note: buy milk\"

The answer goes to standard output, what the tools do to standard error.
A pipe or a file at standard input is read to its end and follows the question; `< /dev/null` gives none.
Without a terminal, tools that need approval do not run unless --yes is given.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The question, before what is piped in; `-` or nothing reads it from standard input
    prompt: Option<String>,
    /// Print every event as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Asks and prints.
pub(crate) fn run(args: &Args, output: &Output) -> Result<u8, Problem> {
    let prompt = prompt(args.prompt.as_deref())?;
    let pace = if output.stdout_tty && !args.json { DEMO_PACE } else { Duration::ZERO };
    let boot = boot::boot(&args.agent, pace)?;
    if !args.json {
        output.dim(&format!("{}: {}", boot.choice.name(), boot.choice.why));
    }
    block_on(ask(args, output, &boot, &prompt))?
}

async fn ask(args: &Args, output: &Output, boot: &Boot, prompt: &str) -> Result<u8, Problem> {
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let style = Style {
        is_json: args.json,
        stdout_tty: output.stdout_tty,
        stderr_color: output.stderr_color,
    };
    let mut printer = Printer::new(io::stdout().lock(), io::stderr(), style);
    let approver = Approver::choose(args.agent.yes, output);
    let mut desk = Desk {
        printer: &mut printer,
        approver,
        lines: &mut Lines::default(),
        interrupt: &mut interrupt,
    };
    let ended = drive(boot.talk.start(prompt), &mut desk).await?;
    exit(&ended, &mut printer)
}

/// The exit code of an ended turn, or the problem it ended with. An answer that lacks something gets a warning.
pub(crate) fn exit<O: Write, E: Write>(
    ended: &Ended,
    printer: &mut Printer<O, E>,
) -> Result<u8, Problem> {
    match ended {
        Ended::Finished(summary) => {
            if let Some(warning) = problem::warning(summary) {
                printer.aside(&format!("warning: {warning}"));
            }
            Problem::of_end(summary).map_or(Ok(0), Err)
        }
        Ended::Failed(error) => Err(Problem::of_run(error)),
        Ended::Cancelled => Ok(ErrorKind::Cancelled.exit_code()),
        Ended::Suspended => {
            Err(Problem::new(ErrorKind::Conflict, "the run waits for something from outside"))
        }
        Ended::ReaderGone => Ok(0),
    }
}

fn prompt(given: Option<&str>) -> Result<String, Problem> {
    let text = match given {
        Some("-") => stdin::read_all(io::stdin().lock())?,
        Some(text) if text.trim().is_empty() => String::new(),
        Some(text) => match stdin::read_piped()? {
            Some(input) => format!("{}\n\n{input}", text.trim_end()),
            None => text.to_owned(),
        },
        None if !io::stdin().is_terminal() => stdin::read_all(io::stdin().lock())?,
        None => {
            return Err(Problem::invalid("there is no question")
                .help("write provost run \"...\", or use `provost chat`"));
        }
    };
    if text.trim().is_empty() {
        return Err(Problem::invalid("the question is empty").help("write provost run \"...\""));
    }
    Ok(text)
}
