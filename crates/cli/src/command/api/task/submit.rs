//! `provost task submit`: submits a task.

use std::io::{self, IsTerminal};
use std::time::Duration;

use provost_api::{DateTime, MessageInput, NewTask, TaskReceipt};
use provost_core::id::name::SessionName;
use provost_core::scheduling::InputMode;
use provost_core::{Env, Money};

use super::super::parse_duration;
use crate::error::CliError;
use crate::follow::{FollowOutcome, RunFollower, Verbosity, print_outcome, print_resume_hint};
use crate::remote::{Connection, ensure_agent};
use crate::render::printer::Format;
use crate::stdin;

const EXAMPLES: &str = "\
Examples:
  provost task submit \"what is 6 * 7?\" --wait
  provost task submit \"save a note: buy milk\" --follow --session notes
  git diff | provost task submit - --agent reviewer --label review
  provost task submit \"report\" --delay 1h --priority 5 --budget 0.50
  id=$(provost task submit \"hi\" -o name) && provost task wait \"$id\"
  provost task submit \"pay\" --idempotency-key order-17    a repeated command submits only once";

/// Arguments of `provost task submit`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Message; `-` or a missing message is read from standard input
    message: Option<String>,
    /// Agent; default: the default agent of the namespace
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Session; default: a new session
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Label of the task
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Key that makes a repeated command return the first task
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Handling while the session is busy: steer, followup, collect or interrupt
    #[arg(long, value_name = "MODE")]
    mode: Option<InputMode>,
    /// Priority in the queue; one unit equals one minute of waiting
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    priority: i32,
    /// Lane whose concurrency limit applies
    #[arg(long, value_name = "NAME")]
    lane: Option<String>,
    /// Text that is added to the system prompt of the agent
    #[arg(long, alias = "system", value_name = "TEXT")]
    system_prompt: Option<String>,
    /// Spending limit in US dollars, such as 0.50
    #[arg(long, value_name = "USD")]
    budget: Option<String>,
    /// Maximum duration of the run: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Delay of the start: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// Deadline of the task, counted from now: 30s, 5m, 1h
    #[arg(long, alias = "within", value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// User whose `user:` state the agent reads and writes
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Always start a new task, even if the session has an active run
    #[arg(long)]
    new_task: bool,
    /// Wait for the answer and print it
    #[arg(long, conflicts_with = "follow")]
    wait: bool,
    /// Print the events of the run until it has ended
    #[arg(long, short)]
    follow: bool,
}

impl Args {
    /// Returns the request body. The message is empty until it has been read.
    pub(crate) fn task(&self) -> Result<NewTask, CliError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let budget = self.budget.as_deref().map(money).transpose()?;
        let deadline = self.deadline.map(|time| DateTime(Env::system().now().after(time)));
        Ok(NewTask {
            message: MessageInput::Text(self.message.clone().unwrap_or_default()),
            agent: self.agent.clone(),
            session: self.session.clone(),
            label: self.label.clone(),
            idempotency_key: self.idempotency_key.clone(),
            queue_mode: self.mode,
            priority: self.priority,
            lane: self.lane.clone(),
            extra_system_prompt: self.system_prompt.clone(),
            user: self.user.clone(),
            budget,
            timeout_ms: self.timeout.map(millis),
            delay_ms: self.delay.map(millis),
            deadline,
            new_task: self.new_task,
            ..NewTask::default()
        })
    }

    /// Reads the message, if necessary from standard input, and validates the arguments. Fails before a database is
    /// created if the message is empty.
    pub(crate) fn read_message(&mut self) -> Result<(), CliError> {
        self.message = Some(message(self.message.as_deref())?);
        self.task().map(drop)
    }

    /// Submits the task, and follows the run with `--wait` or `--follow`.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (task, printer) = (self.task()?, cx.printer);
        if cx.is_local() && task.agent.is_none() {
            ensure_agent(&cx.client).await?;
        }
        let accepted = cx.client.submit(&task).await?;
        let verbosity = match (self.wait, self.follow) {
            (_, true) => Verbosity::Everything,
            (true, false) => Verbosity::Progress,
            (false, false) => {
                print_accepted(&accepted, cx)?;
                return Ok(0);
            }
        };
        if printer.format == Format::Table {
            printer.output.note(&format!("{} · {}", accepted.task, accepted.run));
        }
        cx.process_session(&accepted.session).await?;
        let follower = RunFollower::new(printer, verbosity);
        match follower.follow(&cx.client, accepted.run, None).await? {
            FollowOutcome::Ended(run) | FollowOutcome::TimedOut(run) => {
                print_outcome(&printer, &run, verbosity)
            }
            FollowOutcome::Interrupted => Ok(print_resume_hint(cx, accepted.run)),
        }
    }
}

/// Prints the accepted task and the command that waits for it.
fn print_accepted(accepted: &TaskReceipt, cx: &Connection) -> Result<(), CliError> {
    let printer = &cx.printer;
    let TaskReceipt { task, run, session, deduped, .. } = accepted;
    let note = if *deduped { " (already submitted)" } else { "" };
    let text = format!("{task}{note}\n  run      {run}\n  session  {session}");
    printer.print_result(accepted, &task.to_string(), &text)?;
    if printer.format == Format::Table {
        let flags = cx.flags();
        let next = match cx.is_local() {
            true => format!(
                "`provost serve` executes the task, or `provost task wait {task}{flags}` executes it here"
            ),
            false => format!("`provost task wait {task}{flags}` waits for the answer"),
        };
        printer.output.note(&format!("→ {next}"));
    }
    Ok(())
}

/// Returns the message of the argument, or reads it from standard input. Returns an error if there is none.
fn message(argument: Option<&str>) -> Result<String, CliError> {
    let text = match argument {
        None if io::stdin().is_terminal() => {
            return Err(CliError::invalid("the message is missing")
                .hint("write provost task submit \"...\", or pipe it in"));
        }
        None | Some("-") => stdin::read_all(io::stdin().lock())?,
        Some(text) => match stdin::read_piped()? {
            Some(input) if !text.trim().is_empty() => format!("{}\n\n{input}", text.trim_end()),
            _ => text.to_owned(),
        },
    };
    if text.trim().is_empty() {
        return Err(CliError::invalid("the message is empty")
            .hint("write provost task submit \"...\", or pipe it in"));
    }
    Ok(text)
}

/// Parses an amount in US dollars.
pub(crate) fn money(text: &str) -> Result<Money, CliError> {
    let money = serde_json::json!({ "amount": text, "currency": "USD" });
    serde_json::from_value(money).map_err(|_error| {
        CliError::invalid(format!("`{text}` is not an amount of money")).hint("write --budget 0.50")
    })
}
