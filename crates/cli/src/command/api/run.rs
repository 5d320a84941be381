//! `provost run`: inspects, steers, forks and cancels runs.

mod events;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use provost_api::{ForkRequest, MessageInput, RunQuery};
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::{ErrorKind, InputId, RunId, TaskId};
use provost_model::CassetteRedaction;
use serde_json::json;

use super::listing::ListArgs;
use super::task::{InputArgs, cancel_text};
use super::{ApiCommand, parse_duration};
use crate::error::CliError;
use crate::follow::{FollowOutcome, RunFollower, Verbosity, print_outcome, print_resume_hint};
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost run list --status running --watch
  provost run steps run_01…                           the journaled steps
  provost run send run_01… \"in French, please\"        adds a message while the run is active
  provost run fork run_01… --step 3 --message \"try again\"
  provost run wait run_01… --timeout 30s
  provost run export-cassette run_01… --file talk.json
  provost run cancel run_01…

Exit codes: 0 succeeded, 1 the run failed or its replay differs, 5 not found, 10 timeout, 130 cancelled or interrupted.";

/// Arguments of `provost run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: RunCommand,
    #[command(flatten)]
    remote: ConnectionArgs,
}

#[derive(Debug, Subcommand)]
enum RunCommand {
    /// List runs, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost run list --status running\n  provost run list --task task_01… -o json"
    )]
    List(ListRuns),
    /// Show a run
    #[command(
        after_help = "Examples:\n  provost run get run_01…\n  provost run get run_01… -o yaml"
    )]
    Get {
        /// Id of the run
        run: RunId,
    },
    /// List the journaled steps of a run
    #[command(after_help = "Examples:\n  provost run steps run_01…")]
    Steps {
        /// Id of the run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// List the attempts of a run
    #[command(after_help = "Examples:\n  provost run attempts run_01…")]
    Attempts {
        /// Id of the run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// List or follow the durable events of a run
    Events(events::Args),
    /// Wait until a run has ended
    #[command(
        after_help = "Examples:\n  provost run wait run_01…\n  provost run wait run_01… --timeout 30s\n\n\
                            A timeout or Ctrl-C does not cancel the run."
    )]
    Wait {
        /// Id of the run
        run: RunId,
        /// Maximum wait: 500ms, 30s, 5m, 1h; default: no limit
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<Duration>,
    },
    /// Send a message to a run
    #[command(
        alias = "input",
        after_help = "Examples:\n  provost run send run_01… \"in French, please\"\n  \
                            provost run send run_01… \"stop, do this\" --mode interrupt"
    )]
    Send {
        /// Id of the run
        run: RunId,
        #[command(flatten)]
        input: InputArgs,
    },
    /// List messages that the run has not read yet
    #[command(after_help = "Examples:\n  provost run inputs run_01…")]
    Inputs {
        /// Id of the run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Delete a message that the run has not read yet
    #[command(
        alias = "withdraw",
        after_help = "Examples:\n  provost run delete-input run_01… inp_01…"
    )]
    DeleteInput {
        /// Id of the run
        run: RunId,
        /// Id of the message as shown by `run inputs`
        input: InputId,
    },
    /// Show the open approvals and unread messages of a run
    #[command(
        alias = "interaction",
        after_help = "Examples:\n  provost run pending run_01… -o json"
    )]
    Pending {
        /// Id of the run
        run: RunId,
    },
    /// List the state changes of a run
    #[command(alias = "snapshots", after_help = "Examples:\n  provost run transitions run_01…")]
    Transitions {
        /// Id of the run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Start a new run that shares the first steps of a run
    Fork(ForkArgs),
    /// Replay a run from its journal and compare; no effect is executed
    #[command(
        after_help = "Examples:\n  provost run replay run_01…\n\nThe exit code is 1 if the replay differs."
    )]
    Replay {
        /// Id of the run
        run: RunId,
    },
    /// Export the model calls of a run as a cassette for tests
    #[command(
        alias = "cassette",
        after_help = "Examples:\n  provost run export-cassette run_01… --file talk.json\n  \
                      provost run export-cassette run_01… | jq .calls\n\n\
                      Text that resembles a secret is redacted. The command reads the local database."
    )]
    ExportCassette {
        /// Id of the run
        run: RunId,
        /// File to write; default: standard output
        #[arg(long, short, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Cancel a run and its child runs
    #[command(after_help = "Examples:\n  provost run cancel run_01…")]
    Cancel {
        /// Id of the run
        run: RunId,
    },
    /// Resume a run that waits for an operator
    #[command(after_help = "Examples:\n  provost run resume run_01…")]
    Resume {
        /// Id of the run
        run: RunId,
    },
}

/// Arguments of `provost run fork`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  provost run fork run_01… --message \"now in French\"\n  \
                        provost run fork run_01… --step 2 --replace-message \"what is 7 * 7?\"")]
struct ForkArgs {
    /// Id of the run
    run: RunId,
    /// Number of the last shared step; default: the newest step
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// Message that follows the step
    #[arg(long, alias = "say", value_name = "TEXT")]
    message: Option<String>,
    /// Message that replaces the newest message up to the step
    #[arg(long, alias = "instead", value_name = "TEXT")]
    replace_message: Option<String>,
    /// Key that makes a repeated command return the first result
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ListRuns {
    /// Only runs with this status: accepted, running, ok, error, timeout, cancelled
    #[arg(long)]
    status: Option<RunStatus>,
    /// Only runs in this phase: queued, leased, parked, done
    #[arg(long)]
    phase: Option<RunPhase>,
    /// Only runs of this task
    #[arg(long)]
    task: Option<TaskId>,
    /// Only runs of this session
    #[arg(long)]
    session: Option<String>,
    /// Only runs of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only child runs of this run
    #[arg(long)]
    parent: Option<RunId>,
    #[command(flatten)]
    list: ListArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, CliError> {
        let (client, printer) = (&cx.client, &cx.printer);
        match &self.action {
            RunCommand::List(args) => {
                let query = args.query();
                return args.list.run(printer, async || client.runs(&query).await).await;
            }
            RunCommand::Get { run } => {
                printer.print_details(&client.run(*run).await?, &run.to_string())?
            }
            RunCommand::Steps { run, list } => {
                let paging = list.paging();
                return list.run(printer, async || client.run_steps(*run, &paging).await).await;
            }
            RunCommand::Attempts { run, list } => {
                let paging = list.paging();
                return list.run(printer, async || client.run_attempts(*run, &paging).await).await;
            }
            RunCommand::Events(args) => return args.run(cx).await,
            RunCommand::Wait { run, timeout } => return wait(cx, *run, *timeout).await,
            RunCommand::Send { run, input } => {
                let receipt = client.send_input_to_run(*run, &input.new_input()).await?;
                input.print_receipt(&receipt, printer)?;
            }
            RunCommand::Inputs { run, list } => {
                let paging = list.paging();
                return list.run(printer, async || client.run_inputs(*run, &paging).await).await;
            }
            RunCommand::DeleteInput { run, input } => {
                client.delete_input(*run, *input).await?;
                let text = format!("deleted {input}");
                printer.print_result(&json!({ "id": input }), &input.to_string(), &text)?;
            }
            RunCommand::Pending { run } => {
                printer.print_details(&client.run_interaction(*run).await?, &run.to_string())?;
            }
            RunCommand::Transitions { run, list } => {
                let paging = list.paging();
                return list
                    .run(printer, async || client.run_transitions(*run, &paging).await)
                    .await;
            }
            RunCommand::Fork(args) => args.run(cx).await?,
            RunCommand::Replay { run } => return replay(cx, *run).await,
            RunCommand::ExportCassette { run, file } => {
                export_cassette(cx, *run, file.as_deref()).await?
            }
            RunCommand::Cancel { run } => {
                let cancelled = client.cancel_run(*run).await?;
                let text = format!("{run}: {}", cancel_text(cancelled.outcome));
                printer.print_result(&cancelled, &run.to_string(), &text)?;
            }
            RunCommand::Resume { run } => {
                let resumed = client.resume_run(*run).await?;
                printer.print_result(&resumed, &run.to_string(), &format!("resumed {run}"))?;
            }
        }
        Ok(0)
    }
}

impl ForkArgs {
    /// Forks the run and prints the new run.
    async fn run(&self, cx: &Connection) -> Result<(), CliError> {
        let fork = ForkRequest {
            step: self.step,
            message: self.message.clone().map(MessageInput::Text),
            replace_last_message: self.replace_message.clone().map(MessageInput::Text),
            idempotency_key: self.idempotency_key.clone(),
        };
        let forked = cx.client.fork_run(self.run, &fork).await?;
        let flags = cx.flags();
        let text = format!(
            "{}\n  task     {}\n  session  {}\n→ provost run wait {}{flags}",
            forked.run, forked.task, forked.session, forked.run
        );
        cx.printer.print_result(&forked, &forked.run.to_string(), &text)
    }
}

impl ListRuns {
    /// Returns the query of the list.
    fn query(&self) -> RunQuery {
        RunQuery {
            status: self.status,
            phase: self.phase,
            task: self.task,
            session: self.session.clone(),
            agent: self.agent.clone(),
            parent: self.parent,
            limit: self.list.limit,
            cursor: self.list.cursor.clone(),
        }
    }
}

/// Follows a run until it ends, and prints its result. Returns the exit code.
async fn wait(cx: &mut Connection, run: RunId, timeout: Option<Duration>) -> Result<u8, CliError> {
    let found = cx.client.run(run).await?;
    if found.ended.is_none() {
        cx.process_session(&found.session).await?;
    }
    let verbosity = Verbosity::Progress;
    match RunFollower::new(cx.printer, verbosity).follow(&cx.client, run, timeout).await? {
        FollowOutcome::Ended(run) | FollowOutcome::TimedOut(run) => {
            print_outcome(&cx.printer, &run, verbosity)
        }
        FollowOutcome::Interrupted => Ok(print_resume_hint(cx, run)),
    }
}

/// Writes the model calls of a run as a cassette without secrets. Returns an error for a server.
async fn export_cassette(cx: &Connection, run: RunId, file: Option<&Path>) -> Result<(), CliError> {
    let printer = &cx.printer;
    let Some(runtime) = cx.runtime() else {
        let message = "a cassette can only be exported from the local database";
        return Err(CliError::invalid(message)
            .hint("run the command on the server's machine, without --server"));
    };
    let cassette = runtime.cassette(cx.client.namespace(), run).await?;
    let redactor = provost_redact::Redactor::new();
    let redaction =
        CassetteRedaction::default().rule(move |text| redactor.redact(text).into_owned());
    let (calls, cassette) = (cassette.calls.len(), cassette.redact(&redaction));
    let Some(file) = file else {
        let text = cassette.to_json().map_err(|error| {
            CliError::new(ErrorKind::Malformed, format!("cannot write the cassette: {error}"))
        })?;
        return printer.write(&text);
    };
    cassette.write(file).map_err(|error| CliError::new(error.kind(), error.to_string()))?;
    let text = format!("exported {calls} model calls of {run} to {}", file.display());
    let export = json!({ "run": run, "file": file, "calls": calls });
    printer.print_result(&export, &run.to_string(), &text)
}

/// Replays a run, and prints whether the results agree. Returns the exit code.
async fn replay(cx: &Connection, run: RunId) -> Result<u8, CliError> {
    let printer = &cx.printer;
    let replay = cx.client.replay_run(run).await?;
    let mut text = match replay.consistent {
        true => {
            format!("✓ {run}: replay matches, {} events, {} turns", replay.events, replay.turns)
        }
        false => format!("✗ {run}: replay differs"),
    };
    for difference in &replay.differences {
        text.push_str(&format!("\n  {difference}"));
    }
    printer.print_result(&replay, &run.to_string(), &text)?;
    if replay.consistent {
        return Ok(0);
    }
    let problem = CliError::new(ErrorKind::Malformed, "the stored events differ from the journal");
    printer.output.error(&problem.hint("`provost db check` checks the database for damage"));
    Ok(1)
}
