//! `provost task submit`: hand in a piece of work.

use std::io::{self, IsTerminal};
use std::time::Duration;

use provost_api::{Accepted, NewTask, Said, Time};
use provost_core::id::name::SessionName;
use provost_core::scheduling::InputMode;
use provost_core::{Env, Money};

use super::super::parse_duration;
use crate::follow::{Followed, RunFollower, Verbosity, print_result, print_resume_hint};
use crate::problem::Problem;
use crate::remote::{Connection, ensure_agent};
use crate::render::show::Format;
use crate::stdin;

const EXAMPLES: &str = "\
Examples:
  provost task submit \"what is 6 * 7?\" --wait
  provost task submit \"save a note: buy milk\" --follow --session notes
  git diff | provost task submit - --agent reviewer --label review
  provost task submit \"report\" --delay 1h --priority 5 --budget 0.50
  id=$(provost task submit \"hi\" -o name) && provost task wait \"$id\"
  provost task submit \"pay\" --idempotency-key order-17    a repeat is harmless";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What is asked; `-` or nothing reads it from standard input
    message: Option<String>,
    /// Which agent; the namespace's own if none is named
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Which conversation; a new one if none is named
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// A name for people
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Makes a repeat of this command harmless
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// If the session is busy: steer, followup, collect or interrupt
    #[arg(long, value_name = "MODE")]
    mode: Option<InputMode>,
    /// Who goes first: one step counts like one minute of waiting
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    priority: i32,
    /// The lane whose budget of concurrency it uses
    #[arg(long, value_name = "NAME")]
    lane: Option<String>,
    /// What is added to the agent's instructions
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Dollars that it may spend: 0.50
    #[arg(long, value_name = "USD")]
    budget: Option<String>,
    /// How long the run may take in all: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// When it begins: 30s, 5m, 1h from now
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,
    /// It must be done in this time: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    within: Option<Duration>,
    /// For whom it is: whose `user:` values the agent sees and sets
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Never a follow-up of what the session already has
    #[arg(long)]
    new_task: bool,
    /// Wait for the answer and print it
    #[arg(long, conflicts_with = "follow")]
    wait: bool,
    /// Show what it says and does until it is done
    #[arg(long, short)]
    follow: bool,
}

impl Args {
    /// The task with a message that was read.
    pub(crate) fn task(&self) -> Result<NewTask, Problem> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let budget = self.budget.as_deref().map(money).transpose()?;
        let deadline = self.within.map(|time| Time(Env::system().now().after(time)));
        Ok(NewTask {
            message: Said::Text(self.message.clone().unwrap_or_default()),
            agent: self.agent.clone(),
            session: self.session.clone(),
            label: self.label.clone(),
            idempotency_key: self.idempotency_key.clone(),
            queue_mode: self.mode,
            priority: self.priority,
            lane: self.lane.clone(),
            extra_system_prompt: self.system.clone(),
            user: self.user.clone(),
            budget,
            timeout_ms: self.timeout.map(millis),
            delay_ms: self.delay.map(millis),
            deadline,
            new_task: self.new_task,
            ..NewTask::default()
        })
    }

    /// Reads the message from standard input where it is there. An empty one is refused before a database is made.
    pub(crate) fn read_message(&mut self) -> Result<(), Problem> {
        self.message = Some(message(self.message.as_deref())?);
        self.task().map(drop)
    }

    /// Submits it, and follows the run if that is wanted.
    pub(crate) async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (task, show) = (self.task()?, cx.show);
        if cx.is_local() && task.agent.is_none() {
            ensure_agent(&cx.client).await?;
        }
        let accepted = cx.client.submit(&task).await?;
        let verbosity = match (self.wait, self.follow) {
            (_, true) => Verbosity::Everything,
            (true, false) => Verbosity::Progress,
            (false, false) => {
                tell(&accepted, cx)?;
                return Ok(0);
            }
        };
        if show.format == Format::Table {
            show.output.dim(&format!("{} · {}", accepted.task, accepted.run));
        }
        cx.work_on(&accepted.session).await?;
        let follower = RunFollower::new(show, verbosity);
        match follower.follow(&cx.client, accepted.run, None).await? {
            Followed::Ended(run) | Followed::TimedOut(run) => print_result(&show, &run, verbosity),
            Followed::Interrupted => Ok(print_resume_hint(cx, accepted.run)),
        }
    }
}

/// Says what was accepted and who works on it.
fn tell(accepted: &Accepted, cx: &Connection) -> Result<(), Problem> {
    let show = &cx.show;
    let Accepted { task, run, session, deduped, .. } = accepted;
    let again = if *deduped { " (it was handed in before)" } else { "" };
    let sentence = format!("{task}{again}\n  run      {run}\n  session  {session}");
    show.done(accepted, &task.to_string(), &sentence)?;
    if show.format == Format::Table {
        let flags = cx.flags();
        let how = match cx.is_local() {
            true => format!(
                "`provost serve` works on it, or `provost task wait {task}{flags}` does here and now"
            ),
            false => format!("`provost task wait {task}{flags}` waits for the answer"),
        };
        show.output.dim(&format!("→ {how}"));
    }
    Ok(())
}

fn message(given: Option<&str>) -> Result<String, Problem> {
    let text = match given {
        None if io::stdin().is_terminal() => {
            return Err(Problem::invalid("there is nothing to hand in")
                .help("write provost task submit \"...\", or pipe it in"));
        }
        None | Some("-") => stdin::read_all(io::stdin().lock())?,
        Some(text) => match stdin::read_piped()? {
            Some(input) if !text.trim().is_empty() => format!("{}\n\n{input}", text.trim_end()),
            _ => text.to_owned(),
        },
    };
    if text.trim().is_empty() {
        return Err(Problem::invalid("the message is empty")
            .help("write provost task submit \"...\", or pipe it in"));
    }
    Ok(text)
}

/// Dollars.
pub(crate) fn money(text: &str) -> Result<Money, Problem> {
    let money = serde_json::json!({ "amount": text, "currency": "USD" });
    serde_json::from_value(money).map_err(|_error| {
        Problem::invalid(format!("`{text}` is no amount of money")).help("write --budget 0.50")
    })
}
