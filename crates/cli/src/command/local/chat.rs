//! `provost chat`: a conversation, on a screen or through a pipe.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use provost_core::ErrorKind;

use super::{LEAVE_PATIENCE, block_on};
use crate::args::ChatArgs;
use crate::chat::conversation::Conversation;
use crate::chat::plain::{Approver, Ended, LineSession, drive};
use crate::chat::setup::ChatPlan;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::render::event::{Printer, Style};
use crate::render::output::Output;
use crate::stdin::Lines;
use crate::tui::{self, ChatOptions, Slash, Theme, parse_slash};

/// Pause of the demo model before each word, on a terminal.
const DEMO_PACE: Duration = Duration::from_millis(12);

/// The session of a terminal that names none.
const SESSION_DEFAULT: &str = "default";

const EXAMPLES: &str = "\
Examples:
  provost chat
  provost chat --model anthropic/claude-sonnet-5-5
  provost chat --model my-model --base-url http://127.0.0.1:8080/v1
  provost chat --session work                     another conversation, under a name of its own
  provost chat --server http://127.0.0.1:7077     an agent of a server; --agent names another one than its default
  printf 'hello\\nwhat time is it?\\n' | provost chat

In the chat /help lists commands and keys.
What is said is kept: the next `provost chat` goes on with it, and finishes a turn that was cut off. /clear begins anew.
Through a pipe each line is a turn, and without --session every program has a conversation of its own.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scroll with the mouse wheel; the terminal's own selection then needs Shift
    #[arg(long)]
    mouse: bool,
    #[command(flatten)]
    chat: ChatArgs,
}

/// Talks until the person leaves.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let has_screen = output.stdout_tty && io::stdin().is_terminal() && !is_dumb;
    let agent = &args.chat.agent;
    if !has_screen {
        let has_answers = Approver::choose(agent.yes, output) != Approver::Nobody;
        let plan = ChatPlan::new(&args.chat, data, Duration::ZERO, has_answers)?;
        output.dim(&plan.description());
        return block_on(async {
            let mut chat = plan.open().await?;
            let code = pipe(args, output, &mut chat.conversation).await;
            chat.close(LEAVE_PATIENCE).await;
            code
        })?;
    }
    let plan = ChatPlan::new(&args.chat, data, DEMO_PACE, /*is_interactive*/ true)?;
    let plan = plan.session_or(SESSION_DEFAULT);
    let options = ChatOptions {
        theme: if output.stdout_color { Theme::color() } else { Theme::mono() },
        has_mouse: args.mouse,
        is_yes: agent.yes,
    };
    block_on(async { tui::run(plan.open().await?, options).await })?
}

/// Each line of standard input is a turn; the first turn that fails ends it.
async fn pipe(
    args: &Args,
    output: &Output,
    conversation: &mut Conversation,
) -> Result<u8, Problem> {
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let mut printer = Printer::new(io::stdout(), io::stderr(), Style::text(output));
    let mut lines = Lines::default();
    let approver = Approver::choose(args.chat.agent.yes, output);
    let is_local = conversation.is_local();
    let mut next = match args.chat.agent.session {
        Some(_) => conversation.history().await?.unfinished,
        None => None,
    };
    loop {
        if let Some(run) = next.take() {
            let mut session = LineSession {
                printer: &mut printer,
                approver,
                lines: &mut lines,
                interrupt: &mut interrupt,
                is_local,
            };
            let ended = drive(run, &mut session).await?;
            let code = super::run::exit(&ended, &mut printer)?;
            if code != 0 || matches!(ended, Ended::OutputClosed) {
                return Ok(code);
            }
        }
        let line = tokio::select! {
            line = lines.next() => line,
            _ = interrupt.next() => return Ok(ErrorKind::Cancelled.exit_code()),
        };
        let line = match line {
            None => return Ok(0),
            Some(Ok(line)) => line,
            Some(Err(problem)) => return Err(problem),
        };
        match parse_slash(&line) {
            Some(Slash::Quit) => return Ok(0),
            Some(Slash::Clear) => conversation.reset().await?,
            Some(_) => printer.note("· only /clear and /quit work without a terminal"),
            None if line.trim().is_empty() => {}
            None => next = Some(conversation.start(line.trim()).await?),
        }
    }
}
