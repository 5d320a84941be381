//! `provost run`: one question, one answer.

use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use provost_core::{ErrorKind, RunSummary};

use super::{AgentArgs, block_on};
use crate::boot::{self, Boot};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::plain::{Approver, Desk, Ended, Lines, Printer, Style, drive};
use crate::problem::Problem;

/// Bytes of a prompt.
const PROMPT_BYTES_MAX: u64 = 10 * 1024 * 1024;
/// Pause of the demo model before each word, on a terminal.
const DEMO_PACE: Duration = Duration::from_millis(12);

const EXAMPLES: &str = "\
Examples:
  provost run \"what is (2 + 3) * 4?\"
  provost run --model ollama/llama3.2 \"why is the sky blue?\"
  git diff | provost run --system \"Review this diff.\" -
  provost run --json --timeout 30s \"what time is it?\" | jq -r .type
  provost run --yes \"save a note: buy milk\"

The answer goes to standard output, what the tools do to standard error.
Without a terminal, tools that need approval do not run unless --yes is given.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The question; `-` or nothing reads it from standard input
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
        stderr_tty: output.stderr_tty,
        stderr_color: output.stderr_color,
    };
    let mut printer = Printer::new(io::stdout().lock(), io::stderr(), style);
    let approver = if args.agent.yes {
        Approver::Yes
    } else if output.stderr_tty && io::stdin().is_terminal() {
        Approver::Ask
    } else {
        Approver::Nobody
    };
    let mut desk = Desk {
        printer: &mut printer,
        approver,
        lines: &mut Lines::default(),
        interrupt: &mut interrupt,
    };
    let ended = drive(boot.talk.start(prompt), &mut desk).await?;
    exit(&ended)
}

/// The exit code of an ended turn, or the problem it ended with.
pub(crate) fn exit(ended: &Ended) -> Result<u8, Problem> {
    match ended {
        Ended::Finished(summary) => finished(summary),
        Ended::Failed(error) => Err(Problem::of_run(error)),
        Ended::Cancelled => Ok(ErrorKind::Cancelled.exit_code()),
        Ended::Suspended => {
            Err(Problem::new(ErrorKind::Conflict, "the run waits for something from outside"))
        }
        Ended::ReaderGone => Ok(0),
    }
}

fn finished(summary: &RunSummary) -> Result<u8, Problem> {
    let Some(limit) = &summary.limit else {
        return Ok(0);
    };
    let kind = match limit.limit {
        provost_core::LimitKind::Wall => ErrorKind::Timeout,
        _ => ErrorKind::Exhausted,
    };
    let what = format!(
        "the run stopped at its limit on {}: {} of {}",
        limit.limit.as_str(),
        limit.used,
        limit.allowed
    );
    Err(Problem::new(kind, what).help("raise it with --max-turns or --timeout"))
}

fn prompt(given: Option<&str>) -> Result<String, Problem> {
    let is_piped = !io::stdin().is_terminal();
    let text = match given {
        Some("-") => read(io::stdin().lock())?,
        Some(text) => text.to_owned(),
        None if is_piped => read(io::stdin().lock())?,
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

fn read(stdin: impl Read) -> Result<String, Problem> {
    let mut bytes = Vec::new();
    stdin
        .take(PROMPT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Problem::io("standard input", &error))?;
    if bytes.len() as u64 > PROMPT_BYTES_MAX {
        let what = format!("standard input has more than {PROMPT_BYTES_MAX} bytes");
        return Err(Problem::invalid(what).help("send less"));
    }
    String::from_utf8(bytes).map_err(|error| {
        Problem::invalid(format!("standard input is not text: {error}"))
            .help("convert it to UTF-8 first")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_input_must_be_bounded_text() {
        assert_eq!(read(&b"hi\n"[..]).unwrap(), "hi\n");
        assert!(read(&b"\xff"[..]).unwrap_err().what.contains("not text"));
        let large = io::repeat(b'a');
        assert!(read(large).unwrap_err().what.contains("more than"));
    }
}
