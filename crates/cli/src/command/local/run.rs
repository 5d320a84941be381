//! `provost run`: one question, one answer.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use provost_core::ErrorKind;

use super::{LEAVE_PATIENCE, block_on};
use crate::args::ChatArgs;
use crate::chat::conversation::Conversation;
use crate::chat::plain::{Approver, Ended, LineSession, drive};
use crate::chat::run_stream::RunStream;
use crate::chat::setup::ChatPlan;
use crate::interrupt::Interrupt;
use crate::problem::{self, Problem};
use crate::render::event::{Printer, Style};
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
  provost run --server http://127.0.0.1:7077 \"hi\"   an agent of a server; --agent names another one than its default

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
    chat: ChatArgs,
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
    let approver = Approver::choose(args.chat.agent.yes, output);
    let plan = ChatPlan::new(&args.chat, data, pace, approver != Approver::Nobody)?;
    if !args.json {
        output.dim(&plan.description());
    }
    block_on(async {
        let mut chat = plan.open().await?;
        let asked = ask(args, output, &mut chat.conversation, prompt.as_deref()).await;
        let is_local = chat.conversation.is_local();
        let timeout = match asked {
            Ok(Ended::Detached) => LEAVE_PATIENCE,
            _ => Duration::ZERO,
        };
        chat.close(timeout).await;
        let mut printer = printer(args, output);
        if let Ok(Ended::Detached) = asked {
            printer.note(&resume_hint(args.chat.agent.session.as_deref(), is_local));
        }
        exit(&asked?, &mut printer)
    })?
}

fn printer(args: &Args, output: &Output) -> Printer<io::Stdout, io::Stderr> {
    let style = Style { is_json: args.json, ..Style::text(output) };
    Printer::new(io::stdout(), io::stderr(), style)
}

/// What a person can do about a run that is not finished.
fn resume_hint(session: Option<&str>, is_local: bool) -> String {
    let session = session.map(|name| format!(" --session {name}")).unwrap_or_default();
    let command = format!("provost run --resume{session}");
    match (is_local, session.is_empty()) {
        (false, _) => format!("· the run continues on the server: `{command}` shows it"),
        (true, false) => format!("· the turn is not finished: `{command}` goes on with it"),
        (true, true) => format!("· the run is not finished: `{command}` goes on with it"),
    }
}

async fn ask(
    args: &Args,
    output: &Output,
    conversation: &mut Conversation,
    prompt: Option<&str>,
) -> Result<Ended, Problem> {
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let mut printer = printer(args, output);
    let run = match prompt {
        Some(prompt) => {
            if args.chat.agent.session.is_some()
                && let Some(run) = conversation.history().await?.unfinished
                && let Some(ended) = finish_earlier(
                    args,
                    output,
                    Earlier { run, conversation, interrupt: &mut interrupt },
                )
                .await?
            {
                return Ok(ended);
            }
            conversation.start(prompt).await?
        }
        None => conversation.last_run().await?,
    };
    let mut session = LineSession {
        printer: &mut printer,
        approver: Approver::choose(args.chat.agent.yes, output),
        lines: &mut Lines::default(),
        interrupt: &mut interrupt,
        is_local: conversation.is_local(),
    };
    drive(run, &mut session).await
}

/// A run that was left before another question was asked.
struct Earlier<'a> {
    run: RunStream,
    conversation: &'a Conversation,
    interrupt: &'a mut Interrupt,
}

/// Finishes a run that was left; its answer is in the session and not in the output. The person may stop it all.
async fn finish_earlier(
    args: &Args,
    output: &Output,
    earlier: Earlier<'_>,
) -> Result<Option<Ended>, Problem> {
    let Earlier { run, conversation, interrupt } = earlier;
    let style = Style { stderr_color: output.stderr_color, ..Style::default() };
    let mut printer = Printer::new(io::sink(), io::stderr(), style);
    printer.note("· first the turn of this session that is not finished");
    let approver = match Approver::choose(args.chat.agent.yes, output) {
        // Somebody else was asked, and may still be thinking.
        Approver::Nobody => Approver::Leave,
        approver => approver,
    };
    let mut session = LineSession {
        printer: &mut printer,
        approver,
        lines: &mut Lines::default(),
        interrupt,
        is_local: conversation.is_local(),
    };
    match drive(run, &mut session).await? {
        Ended::Detached if approver == Approver::Leave => {
            let what = "the session waits for an answer to an earlier question";
            let help = "open it with `provost chat --session NAME`, or use another --session";
            Err(Problem::new(ErrorKind::Conflict, what).help(help))
        }
        ended @ (Ended::Detached | Ended::Cancelled) => Ok(Some(ended)),
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
                printer.note(&format!("warning: {warning}"));
            }
            Problem::of_end(summary).map_or(Ok(0), Err)
        }
        Ended::Failed(error) => Err(Problem::of_run(error)),
        Ended::Cancelled => Ok(ErrorKind::Cancelled.exit_code()),
        Ended::Suspended => {
            Err(Problem::new(ErrorKind::Conflict, "the run waits for something from outside"))
        }
        Ended::OutputClosed => Ok(0),
        Ended::Detached => Ok(ErrorKind::Cancelled.exit_code()),
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
