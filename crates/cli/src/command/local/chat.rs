//! `provost chat`: a conversation in the terminal interface, or line by line through a pipe.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use provost_core::ErrorKind;

use super::{SHUTDOWN_TIMEOUT, block_on};
use crate::args::ChatArgs;
use crate::chat::conversation::Conversation;
use crate::chat::line_mode::{ApprovalMode, LineSession, RunOutcome, drive};
use crate::chat::setup::ChatPlan;
use crate::error::CliError;
use crate::render::event::{EventPrinter, Style};
use crate::render::output::Output;
use crate::signal::Signals;
use crate::stdin::Lines;
use crate::tui::{self, ChatOptions, SlashCommand, Theme, parse_slash};

/// Delay of the demo model before each word on a terminal.
const DEMO_TOKEN_DELAY: Duration = Duration::from_millis(12);

/// Default session of a terminal.
const SESSION_DEFAULT: &str = "default";

const EXAMPLES: &str = "\
Examples:
  provost chat
  provost chat --model anthropic/claude-sonnet-5-5
  provost chat --model my-model --base-url http://127.0.0.1:8080/v1
  provost chat --session work                     uses another session
  provost chat --server http://127.0.0.1:7077     chats with an agent of a server; --agent selects it
  printf 'hello\\nwhat time is it?\\n' | provost chat

In the chat, /help lists commands and keys.
Conversations are stored: the next `provost chat` continues the conversation and finishes an interrupted run. /clear
starts a new conversation. Through a pipe, each line is a message; without --session each process uses a new session.";

/// Arguments of `provost chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scroll with the mouse wheel; selecting text then requires Shift
    #[arg(long)]
    mouse: bool,
    #[command(flatten)]
    chat: ChatArgs,
}

/// Runs the chat until the user leaves.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, CliError> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let has_screen = output.stdout_tty && io::stdin().is_terminal() && !is_dumb;
    let agent = &args.chat.agent;
    if !has_screen {
        let is_interactive = ApprovalMode::choose(agent.yes, output) != ApprovalMode::Deny;
        let plan = ChatPlan::new(&args.chat, data, Duration::ZERO, is_interactive)?;
        output.note(&plan.description());
        return block_on(async {
            let mut chat = plan.open().await?;
            let code = pipe(args, output, &mut chat.conversation).await;
            chat.close(SHUTDOWN_TIMEOUT).await;
            code
        })?;
    }
    let plan = ChatPlan::new(&args.chat, data, DEMO_TOKEN_DELAY, /*is_interactive*/ true)?;
    let plan = plan.session_or(SESSION_DEFAULT);
    let options = ChatOptions {
        theme: if output.stdout_color { Theme::color() } else { Theme::mono() },
        has_mouse: args.mouse,
        approves_all: agent.yes,
    };
    block_on(async { tui::run(plan.open().await?, options).await })?
}

/// Sends each line of standard input as a message. Ends at the first run that fails.
async fn pipe(
    args: &Args,
    output: &Output,
    conversation: &mut Conversation,
) -> Result<u8, CliError> {
    let mut signals = Signals::listen().map_err(|error| CliError::io("signals", &error))?;
    let mut printer = EventPrinter::new(io::stdout(), io::stderr(), Style::text(output));
    let mut lines = Lines::default();
    let approval_mode = ApprovalMode::choose(args.chat.agent.yes, output);
    let is_local = conversation.is_local();
    let mut next = match args.chat.agent.session {
        Some(_) => conversation.history().await?.unfinished,
        None => None,
    };
    loop {
        if let Some(run) = next.take() {
            let mut session = LineSession {
                printer: &mut printer,
                approval_mode,
                lines: &mut lines,
                signals: &mut signals,
                is_local,
            };
            let outcome = drive(run, &mut session).await?;
            let code = super::exec::exit_code(&outcome, &mut printer)?;
            if code != 0 || matches!(outcome, RunOutcome::OutputClosed) {
                return Ok(code);
            }
        }
        let line = tokio::select! {
            line = lines.next() => line,
            _ = signals.next() => return Ok(ErrorKind::Cancelled.exit_code()),
        };
        let line = match line {
            None => return Ok(0),
            Some(Ok(line)) => line,
            Some(Err(problem)) => return Err(problem),
        };
        match parse_slash(&line) {
            Some(SlashCommand::Quit) => return Ok(0),
            Some(SlashCommand::Clear) => conversation.reset().await?,
            Some(_) => printer.note("· without a terminal, only /clear and /quit are available"),
            None if line.trim().is_empty() => {}
            None => next = Some(conversation.start(line.trim()).await?),
        }
    }
}
