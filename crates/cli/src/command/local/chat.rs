//! `provost chat`: a conversation, on a screen or through a pipe.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use provost_core::ErrorKind;

use super::{LEAVE_PATIENCE, block_on};
use crate::args::AgentArgs;
use crate::boot::Plan;
use crate::chat::plain::{Approver, Desk, Ended, Printer, Style, drive};
use crate::chat::talk::Talk;
use crate::interrupt::Interrupt;
use crate::problem::Problem;
use crate::render::output::Output;
use crate::stdin::Lines;
use crate::tui::{self, Setting, Slash, Theme, parse_slash};

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
    agent: AgentArgs,
}

/// Talks until the person leaves.
pub(crate) fn run(args: &Args, data: Option<&Path>, output: &Output) -> Result<u8, Problem> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let has_screen = output.stdout_tty && io::stdin().is_terminal() && !is_dumb;
    if !has_screen {
        let has_answers = Approver::choose(args.agent.yes, output) != Approver::Nobody;
        let plan = Plan::new(&args.agent, data, Duration::ZERO, has_answers)?;
        output.dim(&format!("{}: {}", plan.choice.name(), plan.choice.why));
        return block_on(async {
            let mut boot = plan.open().await?;
            let code = pipe(args, output, &mut boot.talk).await;
            boot.runtime.close(LEAVE_PATIENCE).await;
            code
        })?;
    }
    let plan = Plan::new(&args.agent, data, DEMO_PACE, /*is_interactive*/ true)?;
    let plan = plan.session_or(SESSION_DEFAULT);
    let setting = Setting {
        wanted: args.agent.model_request(),
        theme: if output.stdout_color { Theme::color() } else { Theme::mono() },
        has_mouse: args.mouse,
        is_yes: args.agent.yes,
    };
    block_on(async { tui::run(plan.open().await?, setting).await })?
}

/// Each line of standard input is a turn; the first turn that fails ends it.
async fn pipe(args: &Args, output: &Output, talk: &mut Talk) -> Result<u8, Problem> {
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let style =
        Style { is_json: false, stdout_tty: output.stdout_tty, stderr_color: output.stderr_color };
    let mut printer = Printer::new(io::stdout(), io::stderr(), style);
    let mut lines = Lines::default();
    let approver = Approver::choose(args.agent.yes, output);
    let mut next = match args.agent.session {
        Some(_) => talk.past().await?.unfinished,
        None => None,
    };
    loop {
        if let Some(turn) = next.take() {
            let mut desk = Desk {
                printer: &mut printer,
                approver,
                lines: &mut lines,
                interrupt: &mut interrupt,
            };
            let ended = drive(turn, &mut desk).await?;
            let code = super::run::exit(&ended, &mut printer)?;
            if code != 0 || matches!(ended, Ended::ReaderGone) {
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
            Some(Slash::Clear) => talk.begin_anew().await?,
            Some(_) => printer.aside("· only /clear and /quit work without a terminal"),
            None if line.trim().is_empty() => {}
            None => next = Some(talk.start(line.trim()).await?),
        }
    }
}
