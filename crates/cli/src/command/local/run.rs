//! `provost run`: one question, one answer.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use provost_core::ErrorKind;

use super::{LEAVE_PATIENCE, block_on};
use crate::args::AgentArgs;
use crate::boot::{Boot, Plan};
use crate::chat::plain::{Approver, Desk, Ended, Printer, Style, drive};
use crate::interrupt::Interrupt;
use crate::problem::{self, Problem};
use crate::render::output::Output;
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
  provost run --session work \"and in French?\"    goes on with what was said under this name
  provost run --resume                            the last run once more, finished if it was cut off

The answer goes to standard output, what the tools do to standard error.
A pipe or a file at standard input is read to its end and follows the question; `< /dev/null` gives none.
Without a terminal, tools that need approval do not run unless --yes is given.
Ctrl-C stops the run. A run whose process dies, or whose terminal is closed, is kept and can be taken up.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The question, before what is piped in; `-` or nothing reads it from standard input
    prompt: Option<String>,
    /// Print every event as one line of JSON
    #[arg(long)]
    json: bool,
    /// Show the last run again, and finish it if it was cut off: that of --session, or else the last of all
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

/// Asks and prints.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let prompt = match (args.resume, &args.prompt) {
        (true, Some(_)) => {
            return Err(Problem::invalid(
                "--resume takes no question: it goes on with the last one",
            )
            .help("leave one of them out"));
        }
        (true, None) => None,
        (false, given) => Some(prompt(given.as_deref())?),
    };
    let pace = if output.stdout_tty && !args.json { DEMO_PACE } else { Duration::ZERO };
    let approver = Approver::choose(args.agent.yes, output);
    let plan = Plan::new(&args.agent, data, pace, approver != Approver::Nobody)?;
    if !args.json {
        output.dim(&format!("{}: {}", plan.choice.name(), plan.choice.why));
    }
    block_on(async {
        let mut boot = plan.open().await?;
        let asked = ask(args, output, &mut boot, prompt.as_deref()).await;
        let patience = match asked {
            Ok(Ended::Left) => LEAVE_PATIENCE,
            _ => Duration::ZERO,
        };
        boot.runtime.close(patience).await;
        let mut printer = printer(args, output);
        if let Ok(Ended::Left) = asked {
            printer.aside(&left(args.agent.session.as_deref()));
        }
        exit(&asked?, &mut printer)
    })?
}

fn printer(args: &Args, output: &Output) -> Printer<io::Stdout, io::Stderr> {
    let style = Style {
        is_json: args.json,
        stdout_tty: output.stdout_tty,
        stderr_color: output.stderr_color,
    };
    Printer::new(io::stdout(), io::stderr(), style)
}

/// What a person can do about a turn that is not finished.
fn left(session: Option<&str>) -> String {
    match session {
        Some(name) => {
            format!(
                "· the turn is not finished: `provost run --resume --session {name}` goes on with it"
            )
        }
        None => "· the run is not finished: `provost run --resume` goes on with it".to_owned(),
    }
}

async fn ask(
    args: &Args,
    output: &Output,
    boot: &mut Boot,
    prompt: Option<&str>,
) -> Result<Ended, Problem> {
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let mut printer = printer(args, output);
    let turn = match prompt {
        Some(prompt) => {
            if args.agent.session.is_some()
                && let Some(ended) = finish_earlier(args, output, boot, &mut interrupt).await?
            {
                return Ok(ended);
            }
            boot.talk.start(prompt).await?
        }
        None => boot.talk.last_turn().await?,
    };
    let mut desk = Desk {
        printer: &mut printer,
        approver: Approver::choose(args.agent.yes, output),
        lines: &mut Lines::default(),
        interrupt: &mut interrupt,
    };
    drive(turn, &mut desk).await
}

/// A turn that somebody left comes first; its answer is in the session and not in the output. The person may stop it all.
async fn finish_earlier(
    args: &Args,
    output: &Output,
    boot: &mut Boot,
    interrupt: &mut Interrupt,
) -> Result<Option<Ended>, Problem> {
    let Some(turn) = boot.talk.past().await?.unfinished else { return Ok(None) };
    let style = Style { stderr_color: output.stderr_color, ..Style::default() };
    let mut printer = Printer::new(io::sink(), io::stderr(), style);
    printer.aside("· first the turn of this session that is not finished");
    let approver = match Approver::choose(args.agent.yes, output) {
        // Somebody else was asked, and may still be thinking.
        Approver::Nobody => Approver::Leave,
        approver => approver,
    };
    let lines = &mut Lines::default();
    let mut desk = Desk { printer: &mut printer, approver, lines, interrupt };
    match drive(turn, &mut desk).await? {
        Ended::Left if approver == Approver::Leave => {
            let what = "the session waits for an answer to an earlier question";
            let help = "open it with `provost chat --session NAME`, or use another --session";
            Err(Problem::new(ErrorKind::Conflict, what).help(help))
        }
        ended @ (Ended::Left | Ended::Cancelled) => Ok(Some(ended)),
        _ => Ok(None),
    }
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
        Ended::Left => Ok(ErrorKind::Cancelled.exit_code()),
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
