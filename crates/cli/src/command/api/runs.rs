//! `provost runs`: look at runs, steer them, fork them, end them.

mod events;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use provost_api::{Fork, RunList, Said};
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::{ErrorKind, InputId, RunId, TaskId};
use provost_model::Redaction;
use serde_json::json;

use super::listing::ListArgs;
use super::task::{InputArgs, cancelled_text};
use super::{ApiCommand, parse_duration};
use crate::follow::{Followed, RunFollower, Verbosity, print_result, print_resume_hint};
use crate::problem::Problem;
use crate::remote::{Connection, ConnectionArgs};

const EXAMPLES: &str = "\
Examples:
  provost runs list --status running --watch
  provost runs steps run_01…                          what it did, step by step
  provost runs input run_01… \"in French, please\"      say something while it works
  provost runs fork run_01… --step 3 --say \"try again\"
  provost runs wait run_01… --timeout 30s
  provost runs cassette run_01… --file talk.json      play its model back in a test
  provost runs cancel run_01…

Exit codes: 0 answered, 1 the run failed or a replay differs, 5 not found, 10 waited too long, 130 cancelled or left.";

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
    /// List runs, newest first
    #[command(
        visible_alias = "ls",
        after_help = "Examples:\n  provost runs list --status running\n  provost runs list --task task_01… -o json"
    )]
    List(ListRuns),
    /// Show everything about a run
    #[command(
        after_help = "Examples:\n  provost runs get run_01…\n  provost runs get run_01… -o yaml"
    )]
    Get {
        /// The run
        run: RunId,
    },
    /// Show what a run did, step by step: what a fork names
    #[command(after_help = "Examples:\n  provost runs steps run_01…")]
    Steps {
        /// The run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show how often a run was tried, where and why
    #[command(after_help = "Examples:\n  provost runs attempts run_01…")]
    Attempts {
        /// The run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Show what happened in a run
    Events(events::Args),
    /// Wait until a run is over
    #[command(
        after_help = "Examples:\n  provost runs wait run_01…\n  provost runs wait run_01… --timeout 30s\n\n\
                            Waiting out, or Ctrl-C, never stops the run."
    )]
    Wait {
        /// The run
        run: RunId,
        /// How long: 500ms, 30s, 5m, 1h; for ever if nothing is said
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        timeout: Option<Duration>,
    },
    /// Say something to a run
    #[command(after_help = "Examples:\n  provost runs input run_01… \"in French, please\"\n  \
                            provost runs input run_01… \"stop, do this\" --mode interrupt")]
    Input {
        /// The run
        run: RunId,
        #[command(flatten)]
        said: InputArgs,
    },
    /// List what was said to a run and nobody has read yet
    #[command(after_help = "Examples:\n  provost runs inputs run_01…")]
    Inputs {
        /// The run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Take back what was said to a run, as long as nobody has read it
    #[command(after_help = "Examples:\n  provost runs withdraw run_01… inp_01…")]
    Withdraw {
        /// The run
        run: RunId,
        /// The message, as the list of inputs names it
        input: InputId,
    },
    /// Show what can be said to a run now: its questions and what it has not read
    #[command(after_help = "Examples:\n  provost runs interaction run_01… -o json")]
    Interaction {
        /// The run
        run: RunId,
    },
    /// Show how a run changed and how it stood then
    #[command(after_help = "Examples:\n  provost runs snapshots run_01…")]
    Snapshots {
        /// The run
        run: RunId,
        #[command(flatten)]
        list: ListArgs,
    },
    /// Make a new run that shares the first steps of one
    #[command(after_help = "Examples:\n  provost runs fork run_01… --say \"now in French\"\n  \
                            provost runs fork run_01… --step 2 --instead \"what is 7 * 7?\"")]
    Fork {
        /// The run
        run: RunId,
        /// The last step that is shared; the newest if nothing is said
        #[arg(long, value_name = "N")]
        step: Option<u64>,
        /// What is said after the step
        #[arg(long, value_name = "TEXT")]
        say: Option<String>,
        /// What is said instead of the newest message up to the step
        #[arg(long, value_name = "TEXT")]
        instead: Option<String>,
        /// Makes a repeat of this command harmless
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
    },
    /// Read a run once more from its journal and compare; nothing is done
    #[command(
        after_help = "Examples:\n  provost runs replay run_01…\n\nIt exits with 1 if something does not fit together."
    )]
    Replay {
        /// The run
        run: RunId,
    },
    /// Make a cassette of a run: its model calls with their answers, to be played back without a model
    #[command(
        after_help = "Examples:\n  provost runs cassette run_01… --file talk.json\n  provost runs cassette run_01… | jq .calls\n\n\
                            What looks like a secret is taken out. It reads the database of this machine."
    )]
    Cassette {
        /// The run
        run: RunId,
        /// The file to write; standard output if nothing is said
        #[arg(long, short, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// End a run and every run below it
    #[command(after_help = "Examples:\n  provost runs cancel run_01…")]
    Cancel {
        /// The run
        run: RunId,
    },
    /// Let a run go on that waits for an operator
    #[command(after_help = "Examples:\n  provost runs resume run_01…")]
    Resume {
        /// The run
        run: RunId,
    },
}

#[derive(Debug, clap::Args)]
struct ListRuns {
    /// Only with this status: accepted, running, ok, error, timeout, cancelled
    #[arg(long)]
    status: Option<RunStatus>,
    /// Only in this phase: queued, leased, parked, done
    #[arg(long)]
    phase: Option<RunPhase>,
    /// Only of this task
    #[arg(long)]
    task: Option<TaskId>,
    /// Only of this session
    #[arg(long)]
    session: Option<String>,
    /// Only of this agent
    #[arg(long)]
    agent: Option<String>,
    /// Only started by this run
    #[arg(long)]
    parent: Option<RunId>,
    #[command(flatten)]
    list: ListArgs,
}

impl ApiCommand for Args {
    fn connection(&self) -> &ConnectionArgs {
        &self.remote
    }

    async fn run(&self, cx: &mut Connection) -> Result<u8, Problem> {
        let (client, show) = (&cx.client, &cx.show);
        match &self.action {
            Action::List(args) => {
                let asked = args.asked();
                return args.list.run(show, async || client.runs(&asked).await).await;
            }
            Action::Get { run } => show.one(&client.run(*run).await?, &run.to_string())?,
            Action::Steps { run, list } => {
                let paging = list.paging();
                return list.run(show, async || client.steps(*run, &paging).await).await;
            }
            Action::Attempts { run, list } => {
                let paging = list.paging();
                return list.run(show, async || client.attempts(*run, &paging).await).await;
            }
            Action::Events(args) => return args.run(cx).await,
            Action::Wait { run, timeout } => return wait(cx, *run, *timeout).await,
            Action::Input { run, said } => {
                said.tell(&client.tell_run(*run, &said.input()).await?, show)?;
            }
            Action::Inputs { run, list } => {
                let paging = list.paging();
                return list.run(show, async || client.run_inputs(*run, &paging).await).await;
            }
            Action::Withdraw { run, input } => {
                client.withdraw_input(*run, *input).await?;
                let sentence = format!("{input} is taken back");
                show.done(&json!({ "id": input }), &input.to_string(), &sentence)?;
            }
            Action::Interaction { run } => {
                show.one(&client.interaction(*run).await?, &run.to_string())?;
            }
            Action::Snapshots { run, list } => {
                let paging = list.paging();
                return list.run(show, async || client.snapshots(*run, &paging).await).await;
            }
            Action::Fork { run, step, say, instead, idempotency_key } => {
                let fork = Fork {
                    step: *step,
                    say: say.clone().map(Said::Text),
                    instead: instead.clone().map(Said::Text),
                    idempotency_key: idempotency_key.clone(),
                };
                let forked = client.fork(*run, &fork).await?;
                let flags = cx.flags();
                let sentence = format!(
                    "{}\n  task     {}\n  session  {}\n→ provost runs wait {}{flags}",
                    forked.run, forked.task, forked.session, forked.run
                );
                show.done(&forked, &forked.run.to_string(), &sentence)?;
            }
            Action::Replay { run } => return replay(cx, *run).await,
            Action::Cassette { run, file } => cassette(cx, *run, file.as_deref()).await?,
            Action::Cancel { run } => {
                let cancelled = client.cancel_run(*run).await?;
                let sentence = format!("{run} {}", cancelled_text(cancelled.outcome));
                show.done(&cancelled, &run.to_string(), &sentence)?;
            }
            Action::Resume { run } => {
                let resumed = client.resume_run(*run).await?;
                show.done(&resumed, &run.to_string(), &format!("{run} goes on"))?;
            }
        }
        Ok(0)
    }
}

impl ListRuns {
    fn asked(&self) -> RunList {
        RunList {
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

async fn wait(cx: &mut Connection, run: RunId, timeout: Option<Duration>) -> Result<u8, Problem> {
    let found = cx.client.run(run).await?;
    if found.ended.is_none() {
        cx.work_on(&found.session).await?;
    }
    let verbosity = Verbosity::Progress;
    match RunFollower::new(cx.show, verbosity).follow(&cx.client, run, timeout).await? {
        Followed::Ended(run) | Followed::TimedOut(run) => print_result(&cx.show, &run, verbosity),
        Followed::Interrupted => Ok(print_resume_hint(cx, run)),
    }
}

async fn cassette(cx: &Connection, run: RunId, file: Option<&Path>) -> Result<(), Problem> {
    let show = &cx.show;
    let Some(runtime) = cx.runtime() else {
        let what = "a cassette is made where the database is";
        return Err(Problem::invalid(what).help("run it on the server's machine, without --server"));
    };
    let cassette = runtime.cassette(cx.client.namespace(), run).await?;
    let redactor = provost_redact::Redactor::new();
    let redaction = Redaction::default().rule(move |text| redactor.redact(text).into_owned());
    let (calls, cassette) = (cassette.calls.len(), cassette.redacted(&redaction));
    let Some(file) = file else {
        let text = cassette.to_json().map_err(|error| {
            Problem::new(ErrorKind::Malformed, format!("the cassette cannot be written: {error}"))
        })?;
        return show.write(&text);
    };
    cassette.write(file).map_err(|error| Problem::new(error.kind(), error.to_string()))?;
    let sentence = format!("{calls} model calls of {run} are in {}", file.display());
    let what = json!({ "run": run, "file": file, "calls": calls });
    show.done(&what, &run.to_string(), &sentence)
}

async fn replay(cx: &Connection, run: RunId) -> Result<u8, Problem> {
    let show = &cx.show;
    let replay = cx.client.replay(run).await?;
    let mut sentence = match replay.consistent {
        true => {
            format!("✓ {run}: {} events and {} turns fit together", replay.events, replay.turns)
        }
        false => format!("✗ {run} does not fit together"),
    };
    for difference in &replay.differences {
        sentence.push_str(&format!("\n  {difference}"));
    }
    show.done(&replay, &run.to_string(), &sentence)?;
    if replay.consistent {
        return Ok(0);
    }
    let problem = Problem::new(ErrorKind::Malformed, "what is stored is not what was done");
    show.output.problem(&problem.help("`provost db check` looks for damage"));
    Ok(1)
}
