//! `provost chat`: a conversation, on a screen or through a pipe.

use std::io::{self, IsTerminal};
use std::time::Duration;

use provost_core::ErrorKind;

use super::{AgentArgs, block_on};
use crate::boot::{self, Boot};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::plain::{Approver, Desk, Ended, Printer, Style, drive};
use crate::problem::Problem;
use crate::stdin::Lines;
use crate::tui::{self, Chat, Slash, Theme, parse_slash};

/// Pause of the demo model before each word, on a terminal.
const DEMO_PACE: Duration = Duration::from_millis(12);

const EXAMPLES: &str = "\
Examples:
  provost chat
  provost chat --model anthropic/claude-sonnet-5-5
  provost chat --model my-model --base-url http://127.0.0.1:8080/v1
  provost chat --session work                     kept, and continued next time
  printf 'hello\\nwhat time is it?\\n' | provost chat

In the chat /help lists commands and keys. Through a pipe each line is a turn.";

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
pub(crate) fn run(args: &Args, output: &Output) -> Result<u8, Problem> {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let has_screen = output.stdout_tty && io::stdin().is_terminal() && !is_dumb;
    if !has_screen {
        let boot = boot::boot(&args.agent, Duration::ZERO)?;
        return block_on(pipe(args, output, &boot))?;
    }
    let boot = boot::boot(&args.agent, DEMO_PACE)?;
    let chat = Chat {
        boot,
        wanted: args.agent.wanted(),
        pace: DEMO_PACE,
        theme: if output.stdout_color { Theme::color() } else { Theme::mono() },
        has_mouse: args.mouse,
        is_yes: args.agent.yes,
    };
    block_on(tui::run(chat))?
}

/// Each line of standard input is a turn; the first turn that fails ends it.
async fn pipe(args: &Args, output: &Output, boot: &Boot) -> Result<u8, Problem> {
    output.dim(&format!("{}: {}", boot.choice.name(), boot.choice.why));
    let mut interrupt = Interrupt::listen().map_err(|error| Problem::io("signals", &error))?;
    let style =
        Style { is_json: false, stdout_tty: output.stdout_tty, stderr_color: output.stderr_color };
    let mut printer = Printer::new(io::stdout().lock(), io::stderr(), style);
    let mut lines = Lines::default();
    let approver = Approver::choose(args.agent.yes, output);
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = interrupt.next() => return Ok(ErrorKind::Cancelled.exit_code()),
        };
        let line = match line {
            None => return Ok(0),
            Some(Ok(line)) => line,
            Some(Err(problem)) => return Err(problem),
        };
        match parse_slash(&line) {
            Some(Slash::Quit) => return Ok(0),
            Some(Slash::Clear) => boot.talk.forget().await?,
            Some(_) => printer.aside("· only /clear and /quit work without a terminal"),
            None if line.trim().is_empty() => {}
            None => {
                let mut desk = Desk {
                    printer: &mut printer,
                    approver,
                    lines: &mut lines,
                    interrupt: &mut interrupt,
                };
                let ended = drive(boot.talk.start(line.trim()), &mut desk).await?;
                let code = super::run::exit(&ended, &mut printer)?;
                if code != 0 || matches!(ended, Ended::ReaderGone) {
                    return Ok(code);
                }
            }
        }
    }
}
