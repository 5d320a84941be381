//! `provost task`: hand in work, look at it, wait for it, end it.

mod logs;
mod submit;

use std::time::Duration;

use clap::Subcommand;
use provost_api::{CancelOutcome, InputReceipt, NewInput, Said, TaskList};
use provost_core::TaskId;
use provost_core::lifecycle::TaskState;
use provost_core::scheduling::InputMode;
use serde_json::json;

pub(crate) use self::logs::event_text;
pub(crate) use self::submit::money;
use super::listing::ListArgs;
use super::{ApiCommand, parse_duration};
use crate::follow::{Followed, RunFollower, Verbosity, print_result, print_resume_hint};
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs, IfMissing};
use crate::render::show::Show;

const EXAMPLES: &str = "\
Examples:
  provost task submit \"what is 6 * 7?\" --wait        hand in, wait, print the answer
  provost task submit \"save a note: milk\" --follow    see what it says and does
  provost task list --state waiting --watch           what waits for a person
  provost task wait task_01…                          wait for the answer
  provost task cancel task_01…
  provost task list -o json | jq -r '.items[].id'

A server is named with --server or PROVOST_SERVER; without one the database of this machine is used, and --wait and
--follow work on the task themselves.
Exit codes: 0 answered, 1 the run failed, 5 not found, 10 waited too long, 130 cancelled or left.";

/// What it takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Hand in a piece of work
    Submit(Box<submit::Args>),
    /// List tasks, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost task list --state running\n  provost task list --agent helper --watch"
    )]
    List(ListTasks),
    /// Show everything about a task
    #[command(
        after_help = "Examples:\n  provost task get task_01…\n  provost task get task_01… -o yaml"
    )]
    Get {
        /// The task
        task: TaskId,
    },
    /// Wait until a task is answered
    #[command(
        after_help = "Examples:\n  provost task wait task_01…\n  provost task wait task_01… --timeout 30s\n\n\
                            Waiting out, or Ctrl-C, never stops the task."
    )]
    Wait {
        /// The task
        task: TaskId,
        /// How long: 500ms, 30s, 5m, 1h; for ever if nothing is said
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<Duration>,
    },
    /// End a task and everything it started
    #[command(after_help = "Examples:\n  provost task cancel task_01…")]
    Cancel {
        /// The task
        task: TaskId,
    },
    /// Put a task away: lists leave it out
    #[command(
        after_help = "Examples:\n  provost task archive task_01…\n  provost task list --archived"
    )]
    Archive {
        /// The task
        task: TaskId,
    },
    /// Answer a task that failed once more
    #[command(after_help = "Examples:\n  provost task retry task_01…")]
    Retry {
        /// The task
        task: TaskId,
    },
    /// List the runs of a task, newest first
    #[command(after_help = "Examples:\n  provost task runs task_01…")]
    Runs {
        /// The task
        task: TaskId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Say something to a task, whichever run answers
    #[command(after_help = "Examples:\n  provost task input task_01… \"and now in French\"\n  \
                      provost task input task_01… \"stop, do this\" --mode interrupt")]
    Input {
        /// The task
        task: TaskId,
        #[command(flatten)]
        said: InputArgs,
    },
    /// List what was said to a task and nobody has read yet
    #[command(after_help = "Examples:\n  provost task inputs task_01…")]
    Inputs {
        /// The task
        task: TaskId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show what was said in a task
    Logs(logs::Args),
    /// Show what happened in a task
    Events(logs::EventArgs),
}

/// Something that is said to a task or a run.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// What is said
    text: String,
    /// If it is busy: steer, followup, collect or interrupt
    #[arg(long, value_name = "MODE", default_value = "steer")]
    mode: InputMode,
    /// Makes a repeat of this command harmless
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl InputArgs {
    /// As it is sent.
    pub(crate) fn input(&self) -> NewInput {
        NewInput {
            message: Said::Text(self.text.clone()),
            mode: Some(self.mode),
            idempotency_key: self.idempotency_key.clone(),
            ..NewInput::default()
        }
    }

    /// Says what becomes of it.
    pub(crate) fn tell(&self, receipt: &InputReceipt, show: &Show) -> Result<(), Problem> {
        let sentence = format!("{} · {} · {}", receipt.input, receipt.outcome, receipt.run);
        show.done(receipt, &receipt.input.to_string(), &sentence)
    }
}

#[derive(Debug, clap::Args)]
struct ListTasks {
    /// Only in this state: queued, running, waiting, sleeping, done, error, dropped, cancelled
    #[arg(long)]
    state: Option<TaskState>,
    /// Only of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only of this session
    #[arg(long)]
    session: Option<String>,
    /// Only with this label
    #[arg(long)]
    label: Option<String>,
    /// Only asked for by this task
    #[arg(long)]
    parent: Option<TaskId>,
    /// Also those that were put away
    #[arg(long)]
    archived: bool,
    #[command(flatten)]
    list: ListArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    fn if_missing(&self) -> IfMissing {
        match self.action {
            Action::Submit(_) => IfMissing::Create,
            _ => IfMissing::Fail,
        }
    }

    fn check(&mut self) -> Result<(), Problem> {
        match &mut self.action {
            Action::Submit(args) => args.read_message(),
            _ => Ok(()),
        }
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::Submit(args) => return args.run(cx).await,
            Action::List(args) => {
                let asked = TaskList {
                    state: args.state,
                    agent: args.agent.clone(),
                    session: args.session.clone(),
                    label: args.label.clone(),
                    parent: args.parent,
                    archived: args.archived.then_some(true),
                    limit: args.list.limit,
                    cursor: args.list.cursor.clone(),
                };
                return args.list.run(show, async || client.tasks(&asked).await).await;
            }
            Action::Get { task } => show.one(&client.task(*task).await?, &task.to_string())?,
            Action::Wait { task, timeout } => return wait(cx, *task, *timeout).await,
            Action::Cancel { task } => {
                let cancelled = client.cancel_task(*task).await?;
                let sentence = cancelled_text(cancelled.outcome);
                show.done(&cancelled, &task.to_string(), &format!("{task} {sentence}"))?;
            }
            Action::Archive { task } => {
                let archived = client.archive_task(*task).await?;
                show.done(&archived, &task.to_string(), &format!("{task} is put away"))?;
            }
            Action::Retry { task } => {
                let run = client.retry_task(*task).await?.run;
                let what = json!({ "task": task, "run": run });
                let sentence = format!("{run} answers {task}\n→ provost task wait {task}");
                show.done(&what, &run.to_string(), &sentence)?;
            }
            Action::Runs { task, list } => {
                let paging = list.paging();
                return list.run(show, async || client.task_runs(*task, &paging).await).await;
            }
            Action::Input { task, said } => {
                said.tell(&client.tell_task(*task, &said.input()).await?, show)?;
            }
            Action::Inputs { task, list } => {
                let paging = list.paging();
                return list.run(show, async || client.task_inputs(*task, &paging).await).await;
            }
            Action::Logs(args) => return args.run(cx).await,
            Action::Events(args) => return args.run(cx).await,
        }
        Ok(0)
    }
}

async fn wait(cx: &mut Connection, task: TaskId, timeout: Option<Duration>) -> Result<u8, Problem> {
    let found = cx.client.task(task).await?;
    let run = found.run.ok_or_else(|| {
        let reason = found.drop_reason.as_deref().unwrap_or("nobody knows why");
        Problem::new(provost_core::ErrorKind::Conflict, format!("{task} has no run: {reason}"))
    })?;
    cx.work_on(&found.session).await?;
    let verbosity = Verbosity::Progress;
    match RunFollower::new(cx.show, verbosity).follow(&cx.client, run, timeout).await? {
        Followed::Ended(run) | Followed::TimedOut(run) => print_result(&cx.show, &run, verbosity),
        Followed::Interrupted => Ok(print_resume_hint(cx, run)),
    }
}

/// What came of a request to cancel.
pub(crate) fn cancelled_text(outcome: CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Now => "is cancelled",
        CancelOutcome::Requested => "stops at the next moment",
        CancelOutcome::AlreadyTerminal => "had ended before",
    }
}
