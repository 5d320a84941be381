//! `provost exec`: sends one prompt and prints the answer.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use provost_core::ErrorKind;

use super::{SHUTDOWN_TIMEOUT, block_on};
use crate::args::ChatArgs;
use crate::chat::conversation::Conversation;
use crate::chat::line_mode::{ApprovalMode, LineSession, RunOutcome, drive};
use crate::chat::run_stream::RunStream;
use crate::chat::setup::ChatPlan;
use crate::error::{self, CliError};
use crate::render::event::{EventPrinter, Style};
use crate::render::output::Output;
use crate::signal::Signals;
use crate::stdin::{self, Lines};

/// Delay of the demo model before each word on a terminal.
const DEMO_TOKEN_DELAY: Duration = Duration::from_millis(12);

const EXAMPLES: &str = "\
Examples:
  provost exec \"what is (2 + 3) * 4?\"
  provost exec --model ollama/llama3.2 \"why is the sky blue?\"
  provost exec \"Summarise this\" < notes.txt
  git diff | provost exec --system-prompt \"Review this diff.\" -
  provost exec --json --timeout 30s \"what time is it?\" | jq -r .type
  provost exec --yes \"save a note: buy milk\"
  provost exec --session work \"and in French?\"    continues the session
  provost exec --resume                           shows the last run, and finishes it if it was interrupted
  provost exec --server http://127.0.0.1:7077 \"hi\"  an agent of a server; --agent selects it

The answer goes to standard output, the activity of the tools to standard error.
A pipe or a file on standard input is appended to the prompt; `< /dev/null` prevents this.
Without a terminal, tool calls that require approval are denied unless --yes is set.
Ctrl-C cancels the run. A run whose process was killed or whose terminal was closed can be resumed.";

/// Arguments of `provost exec`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Prompt; `-` or a missing prompt is read from standard input
    prompt: Option<String>,
    /// Print each event as one line of JSON
    #[arg(long)]
    json: bool,
    /// Show the last run of --session, or of all sessions, and finish it if it was interrupted
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    chat: ChatArgs,
}

/// Sends the prompt and prints the answer.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    let prompt = match (args.resume, &args.prompt) {
        (true, Some(_)) => {
            return Err(CliError::invalid("--resume takes no prompt: it continues the last run")
                .hint("remove the prompt or --resume"));
        }
        (true, None) => None,
        (false, argument) => Some(prompt(argument.as_deref())?),
    };
    let demo_token_delay =
        if output.stdout_tty && !args.json { DEMO_TOKEN_DELAY } else { Duration::ZERO };
    let approval_mode = ApprovalMode::choose(args.chat.agent.yes, output);
    let plan =
        ChatPlan::new(&args.chat, data, demo_token_delay, approval_mode != ApprovalMode::Deny)?;
    if !args.json {
        output.note(&plan.description());
    }
    block_on(async {
        let mut chat = plan.open().await?;
        let outcome = execute(args, output, &mut chat.conversation, prompt.as_deref()).await;
        let is_local = chat.conversation.is_local();
        let timeout = match outcome {
            Ok(RunOutcome::Detached) => SHUTDOWN_TIMEOUT,
            _ => Duration::ZERO,
        };
        chat.close(timeout).await;
        let mut printer = printer(args, output);
        if let Ok(RunOutcome::Detached) = outcome {
            printer.note(&resume_hint(args.chat.agent.session.as_deref(), is_local));
        }
        exit_code(&outcome?, &mut printer)
    })?
}

fn printer(args: &Args, output: &Output) -> EventPrinter<io::Stdout, io::Stderr> {
    let style = Style { is_json: args.json, ..Style::text(output) };
    EventPrinter::new(io::stdout(), io::stderr(), style)
}

/// Returns the command that continues an unfinished run.
fn resume_hint(session: Option<&str>, is_local: bool) -> String {
    let session = session.map(|name| format!(" --session {name}")).unwrap_or_default();
    let command = format!("provost exec --resume{session}");
    match (is_local, session.is_empty()) {
        (false, _) => format!("· the run continues on the server: `{command}` shows it"),
        (true, false) => format!("· the run is not finished: `{command}` continues it"),
        (true, true) => format!("· the run is not finished: `{command}` continues it"),
    }
}

/// Sends the prompt, or continues the unfinished run, and prints the run until it ends.
async fn execute(
    args: &Args,
    output: &Output,
    conversation: &mut Conversation,
    prompt: Option<&str>,
) -> Result<RunOutcome, CliError> {
    let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
    let mut printer = printer(args, output);
    let run = match prompt {
        Some(prompt) => {
            if args.chat.agent.session.is_some()
                && let Some(run) = conversation.history().await?.unfinished
                && let Some(outcome) = finish_previous_run(
                    args,
                    output,
                    UnfinishedRun { run, conversation, signals: &mut signals },
                )
                .await?
            {
                return Ok(outcome);
            }
            conversation.start(prompt).await?
        }
        None => conversation.last_run().await?,
    };
    let mut session = LineSession {
        printer: &mut printer,
        approval_mode: ApprovalMode::choose(args.chat.agent.yes, output),
        lines: &mut Lines::default(),
        signals: &mut signals,
        is_local: conversation.is_local(),
    };
    drive(run, &mut session).await
}

/// Run of the session that an earlier process did not finish.
struct UnfinishedRun<'a> {
    run: RunStream,
    conversation: &'a Conversation,
    signals: &'a mut Signals,
}

/// Finishes an unfinished run before the new prompt. Its answer is stored in the session and not printed. Returns the
/// outcome if the user stopped the run.
async fn finish_previous_run(
    args: &Args,
    output: &Output,
    unfinished: UnfinishedRun<'_>,
) -> Result<Option<RunOutcome>, CliError> {
    let UnfinishedRun { run, conversation, signals } = unfinished;
    let style = Style { stderr_color: output.stderr_color, ..Style::default() };
    let mut printer = EventPrinter::new(io::sink(), io::stderr(), style);
    printer.note("· finishing the previous run of this session");
    let approval_mode = match ApprovalMode::choose(args.chat.agent.yes, output) {
        // Another client may still decide the open approval.
        ApprovalMode::Deny => ApprovalMode::Defer,
        approval_mode => approval_mode,
    };
    let mut session = LineSession {
        printer: &mut printer,
        approval_mode,
        lines: &mut Lines::default(),
        signals,
        is_local: conversation.is_local(),
    };
    match drive(run, &mut session).await? {
        RunOutcome::Detached if approval_mode == ApprovalMode::Defer => {
            let message = "the previous run of the session waits for an approval";
            let hint = "open it with `provost chat --session NAME`, or use another --session";
            Err(CliError::new(ErrorKind::Conflict, message).hint(hint))
        }
        outcome @ (RunOutcome::Detached | RunOutcome::Cancelled) => Ok(Some(outcome)),
        _ => Ok(None),
    }
}

/// Returns the exit code of a run, or the error that ended it. Prints a warning if the answer is incomplete.
pub(crate) fn exit_code<O: Write, E: Write>(
    outcome: &RunOutcome,
    printer: &mut EventPrinter<O, E>,
) -> Result<u8, CliError> {
    match outcome {
        RunOutcome::Finished(summary) => {
            if let Some(warning) = error::warning(summary) {
                printer.note(&format!("warning: {warning}"));
            }
            CliError::of_end(summary).map_or(Ok(0), Err)
        }
        RunOutcome::Failed(error) => Err(CliError::of_run(error)),
        RunOutcome::Cancelled => Ok(ErrorKind::Cancelled.exit_code()),
        RunOutcome::Suspended => {
            Err(CliError::new(ErrorKind::Conflict, "the run waits for an external event"))
        }
        RunOutcome::OutputClosed => Ok(0),
        RunOutcome::Detached => Ok(ErrorKind::Cancelled.exit_code()),
    }
}

/// Returns the prompt of the argument and of piped input. Returns an error if both are empty.
fn prompt(argument: Option<&str>) -> Result<String, CliError> {
    let text = match argument {
        Some("-") => stdin::read_all(io::stdin().lock())?,
        Some(text) if text.trim().is_empty() => String::new(),
        Some(text) => match stdin::read_piped()? {
            Some(input) => format!("{}\n\n{input}", text.trim_end()),
            None => text.to_owned(),
        },
        None if !io::stdin().is_terminal() => stdin::read_all(io::stdin().lock())?,
        None => {
            return Err(CliError::invalid("the prompt is missing")
                .hint("run provost exec \"...\", or use `provost chat`"));
        }
    };
    if text.trim().is_empty() {
        return Err(CliError::invalid("the prompt is empty").hint("run provost exec \"...\""));
    }
    Ok(text)
}
