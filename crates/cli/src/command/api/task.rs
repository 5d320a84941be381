//! `provost task`: submits, lists, follows and cancels tasks.

mod logs;
mod submit;

use std::time::Duration;

use clap::Subcommand;
use provost_api::{CancelOutcome, InputReceipt, MessageInput, NewInput, TaskQuery};
use provost_core::TaskId;
use provost_core::lifecycle::TaskState;
use provost_core::scheduling::InputMode;
use serde_json::json;

pub(crate) use self::logs::event_text;
pub(crate) use self::submit::money;
use super::listing::ListArgs;
use super::{ApiCommand, parse_duration};
use crate::error::CliError;
use crate::follow::{FollowOutcome, RunFollower, Verbosity, print_outcome, print_resume_hint};
use crate::remote::{Connection, ConnectionArgs, IfMissing};
use crate::render::printer::Printer;

const EXAMPLES: &str = "\
Examples:
  provost task submit \"what is 6 * 7?\" --wait        submits, waits and prints the answer
  provost task submit \"save a note: milk\" --follow    prints the events of the run
  provost task list --state waiting --watch          tasks that wait for an approval
  provost task wait task_01…                          waits for the answer
  provost task cancel task_01…
  provost task list -o json | jq -r '.items[].id'

Use --server or PROVOST_SERVER to select a server. Without a server the command uses the local database, and --wait and
--follow execute the run in this process.
Exit codes: 0 succeeded, 1 the run failed, 5 not found, 10 timeout, 130 cancelled or interrupted.";

/// Arguments of `provost task`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: TaskCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    /// Submit a task
    Submit(Box<submit::Args>),
    /// List tasks, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost task list --state running\n  provost task list --agent helper --watch"
    )]
    List(ListTasks),
    /// Show a task
    #[command(
        after_help = "Examples:\n  provost task get task_01…\n  provost task get task_01… -o yaml"
    )]
    Get {
        /// Id of the task
        task: TaskId,
    },
    /// Wait until a task has ended
    #[command(
        after_help = "Examples:\n  provost task wait task_01…\n  provost task wait task_01… --timeout 30s\n\n\
                            A timeout or Ctrl-C does not cancel the task."
    )]
    Wait {
        /// Id of the task
        task: TaskId,
        /// Maximum wait: 500ms, 30s, 5m, 1h; default: no limit
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<Duration>,
    },
    /// Cancel a task and its child tasks
    #[command(after_help = "Examples:\n  provost task cancel task_01…")]
    Cancel {
        /// Id of the task
        task: TaskId,
    },
    /// Archive a task; lists omit it
    #[command(
        after_help = "Examples:\n  provost task archive task_01…\n  provost task list --archived"
    )]
    Archive {
        /// Id of the task
        task: TaskId,
    },
    /// Start a new run of a failed task
    #[command(after_help = "Examples:\n  provost task retry task_01…")]
    Retry {
        /// Id of the task
        task: TaskId,
    },
    /// List the runs of a task, newest first
    #[command(after_help = "Examples:\n  provost task runs task_01…")]
    Runs {
        /// Id of the task
        task: TaskId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Send a message to the active run of a task
    #[command(
        alias = "input",
        after_help = "Examples:\n  provost task send task_01… \"and now in French\"\n  \
                      provost task send task_01… \"stop, do this\" --mode interrupt"
    )]
    Send {
        /// Id of the task
        task: TaskId,
        #[command(flatten)]
        input: InputArgs,
    },
    /// List messages that no run has read yet
    #[command(after_help = "Examples:\n  provost task inputs task_01…")]
    Inputs {
        /// Id of the task
        task: TaskId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Print the messages of a task
    Logs(logs::Args),
    /// List or follow the durable events of a task
    Events(logs::EventArgs),
}

/// Message to a task or a run.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// Message
    text: String,
    /// Handling while the run is busy: steer, followup, collect or interrupt
    #[arg(long, value_name = "MODE", default_value = "steer")]
    mode: InputMode,
    /// Key that makes a repeated command return the first result
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl InputArgs {
    /// Returns the request body.
    pub(crate) fn new_input(&self) -> NewInput {
        NewInput {
            message: MessageInput::Text(self.text.clone()),
            mode: Some(self.mode),
            idempotency_key: self.idempotency_key.clone(),
            ..NewInput::default()
        }
    }

    /// Prints which run received the message and how it is handled.
    pub(crate) fn print_receipt(
        &self,
        receipt: &InputReceipt,
        printer: &Printer,
    ) -> Result<(), CliError> {
        let text = format!("{} · {} · {}", receipt.input, receipt.outcome, receipt.run);
        printer.print_result(receipt, &receipt.input.to_string(), &text)
    }
}

#[derive(Debug, clap::Args)]
struct ListTasks {
    /// Only tasks in this state: queued, running, waiting, sleeping, done, error, dropped, cancelled
    #[arg(long)]
    state: Option<TaskState>,
    /// Only tasks of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only tasks of this session
    #[arg(long)]
    session: Option<String>,
    /// Only tasks with this label
    #[arg(long)]
    label: Option<String>,
    /// Only child tasks of this task
    #[arg(long)]
    parent: Option<TaskId>,
    /// Include archived tasks
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
            TaskCommand::Submit(_) => IfMissing::Create,
            _ => IfMissing::Fail,
        }
    }

    fn read_input(&mut self) -> Result<(), CliError> {
        match &mut self.action {
            TaskCommand::Submit(args) => args.read_message(),
            _ => Ok(()),
        }
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            TaskCommand::Submit(args) => return args.run(cx).await,
            TaskCommand::List(args) => {
                let query = TaskQuery {
                    state: args.state,
                    agent: args.agent.clone(),
                    session: args.session.clone(),
                    label: args.label.clone(),
                    parent: args.parent,
                    archived: args.archived.then_some(true),
                    limit: args.list.limit,
                    cursor: args.list.cursor.clone(),
                };
                return args.list.run(printer, async || client.tasks(&query).await).await;
            }
            TaskCommand::Get { task } => {
                printer.print_details(&client.task(*task).await?, &task.to_string())?
            }
            TaskCommand::Wait { task, timeout } => return wait(cx, *task, *timeout).await,
            TaskCommand::Cancel { task } => {
                let cancelled = client.cancel_task(*task).await?;
                let text = format!("{task}: {}", cancel_text(cancelled.outcome));
                printer.print_result(&cancelled, &task.to_string(), &text)?;
            }
            TaskCommand::Archive { task } => {
                let archived = client.archive_task(*task).await?;
                printer.print_result(&archived, &task.to_string(), &format!("archived {task}"))?;
            }
            TaskCommand::Retry { task } => {
                let run = client.retry_task(*task).await?.run;
                let retry = json!({ "task": task, "run": run });
                let text = format!("{run} executes {task}\n→ provost task wait {task}");
                printer.print_result(&retry, &run.to_string(), &text)?;
            }
            TaskCommand::Runs { task, list } => {
                let paging = list.paging();
                return list.run(printer, async || client.task_runs(*task, &paging).await).await;
            }
            TaskCommand::Send { task, input } => {
                let receipt = client.send_input_to_task(*task, &input.new_input()).await?;
                input.print_receipt(&receipt, printer)?;
            }
            TaskCommand::Inputs { task, list } => {
                let paging = list.paging();
                return list.run(printer, async || client.task_inputs(*task, &paging).await).await;
            }
            TaskCommand::Logs(args) => return args.run(cx).await,
            TaskCommand::Events(args) => return args.run(cx).await,
        }
        Ok(0)
    }
}

/// Follows the current run of a task until it ends, and prints its result. Returns the exit code.
async fn wait(
    cx: &mut Connection,
    task: TaskId,
    timeout: Option<Duration>,
) -> Result<u8, CliError> {
    let found = cx.client.task(task).await?;
    let run = found.run.ok_or_else(|| {
        let reason = found.drop_reason.as_deref().unwrap_or("the reason is unknown");
        CliError::new(provost_core::ErrorKind::Conflict, format!("{task} has no run: {reason}"))
    })?;
    cx.process_session(&found.session).await?;
    let verbosity = Verbosity::Progress;
    match RunFollower::new(cx.printer, verbosity).follow(&cx.client, run, timeout).await? {
        FollowOutcome::Ended(run) | FollowOutcome::TimedOut(run) => {
            print_outcome(&cx.printer, &run, verbosity)
        }
        FollowOutcome::Interrupted => Ok(print_resume_hint(cx, run)),
    }
}

/// Describes the result of a cancellation request.
pub(crate) fn cancel_text(outcome: CancelOutcome) -> &'static str {
    match outcome {
        CancelOutcome::Now => "cancelled",
        CancelOutcome::Requested => "cancellation requested",
        CancelOutcome::AlreadyTerminal => "already finished",
    }
}
