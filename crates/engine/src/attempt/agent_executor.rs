//! Executor of agent runs: drives the loop of the crate `provost-agent` and journals it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::run::{JournalEntry, Run};
use provost_agent::{ApprovalMode, RunBuilder};
use provost_core::StopReason;
use provost_core::lifecycle::RunKind;
use provost_failpoint::failpoint;
use provost_store::table::work::{run, session_entry};
use provost_tool::{Deps, Origin};
use tracing::Instrument;

use super::drive::{self, Driven, drive};
use super::executor::{ExecutionResult, Executor, JournalPosition};
use super::{AttemptSignal, RunningAttempt};
use crate::attempt::instructions::ExtraInstructions;
use crate::attempt::outcome::AttemptOutcome;
use crate::attempt::restore::{self, LoadedRun, RunHeader};
use crate::attempt::timeouts::AgentTimeouts;
use crate::attempt::workspace;
use crate::child::team;
use crate::child::{Birth, EngineChildren, Family};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::journal::{RunJournal, shared_state};
use crate::worker::lease::Lease;

/// Executes agent runs.
pub(crate) struct AgentExecutor;

impl Executor for AgentExecutor {
    fn kind(&self) -> RunKind {
        RunKind::Agent
    }

    fn execute<'a>(
        &'a self,
        shared: &'a EngineInner,
        live: &'a RunningAttempt,
    ) -> BoxFuture<'a, Result<Option<ExecutionResult>, EngineError>> {
        execute(shared, live).boxed()
    }
}

async fn execute(
    shared: &EngineInner,
    live: &RunningAttempt,
) -> Result<Option<ExecutionResult>, EngineError> {
    failpoint!("attempt.claimed");
    let mut signal = live.signal.subscribe();
    let opened = tokio::select! {
        biased;
        opened = open(shared, live) => opened?,
        // Nothing has happened yet.
        _ = signal.wait_for(|signal| *signal == AttemptSignal::Abandon) => return Ok(None),
    };
    let Opened { builder, journal, watch, span } = opened;
    let driven = drive(builder, live, &journal, watch).instrument(span).await;
    let written = JournalPosition::of(&journal);
    Ok(match driven {
        Driven::GivenUp => None,
        Driven::Boundary => {
            Some(ExecutionResult { outcome: AttemptOutcome::Drained, position: written })
        }
        Driven::Ended(outcome) => Some(ExecutionResult {
            outcome: AttemptOutcome::from_driver(*outcome),
            position: written,
        }),
        Driven::Stopped(verdict) => {
            Some(ExecutionResult { outcome: verdict, position: JournalPosition::default() })
        }
    })
}

/// A run that is ready to be driven.
struct Opened {
    builder: RunBuilder,
    journal: Arc<RunJournal>,
    watch: drive::Watch,
    span: tracing::Span,
}

async fn open(shared: &EngineInner, live: &RunningAttempt) -> Result<Opened, EngineError> {
    let lease = &live.lease;
    let loaded = load(shared, lease).await?;
    let RunHeader { extra, by, birth } = loaded.words;
    let LoadedRun { machine, message, revision, mut journal, agent, .. } = loaded;
    let owners = shared_state::owners(lease, loaded.user.as_deref());
    journal.user = loaded.user;
    let profile = shared.profiles.get(&shared.store, agent).await?;
    let budgeted = !lease.budgets.is_empty();
    let store = shared.store.clone();
    let journal =
        RunJournal::new(store, Arc::clone(lease), journal, shared.options.on_unknown, budgeted);
    let journal = Arc::new(journal);
    live.write_to(&journal);
    let agent = shared.agents.build(&profile, lease)?;
    let agent = match &birth {
        Some(birth) => birth.agent(&agent)?,
        None => agent,
    };
    let builder = match (machine, message) {
        (Some(machine), _) => {
            workspace::check_workspace(shared, lease, &journal).await?;
            let machine = take_up(shared, lease, &journal, machine).await?;
            agent.restore(machine, revision)
        }
        (None, Some(message)) => agent.run(message.parts).said_at(message.created_at),
        (None, None) => return Err(EngineError::bug("a run without a message")),
    };
    let builder = builder
        .run_id(lease.run)
        .session(journal.clone(), lease.session.clone())
        .journal(journal.clone())
        .shared_values(owners, loaded.shared)
        .deps(given(shared, lease, &journal))
        .children(Arc::new(EngineChildren::new(
            Family::new(shared, lease, &journal),
            birth.as_ref(),
        )))
        .origin(Origin {
            namespace: lease.namespace.clone(),
            task: lease.task.to_string(),
            worker: lease.worker.to_string(),
            principal: by.unwrap_or_default(),
            ..Origin::default()
        })
        .on_approval(ApprovalMode::Suspend);
    let span = Birth::span(birth.as_ref(), lease.run);
    let member = team::membership(shared, birth.as_ref()).await?;
    let builder = match team::seat(shared, lease, agent.initial_team_state(), member) {
        Some(seat) => builder.seat(seat),
        None => builder,
    };
    let builder = match birth {
        Some(birth) => birth.place_in(builder),
        None => builder,
    };
    let builder = match extra {
        Some(extra) => builder.hook(ExtraInstructions(extra)),
        None => builder,
    };
    let watch = drive::Watch::new(AgentTimeouts::of(&profile.config)?, &shared.options);
    Ok(Opened { builder, journal, watch, span })
}

/// Returns the values that the engine provides to the tools of a run.
fn given(shared: &EngineInner, lease: &Arc<Lease>, journal: &Arc<RunJournal>) -> Deps {
    Deps::default().with_shared(journal.transactional()).with(Family::new(shared, lease, journal))
}

async fn load(shared: &EngineInner, lease: &Arc<Lease>) -> Result<LoadedRun, EngineError> {
    let (lease, env) = (Arc::clone(lease), shared.env.clone());
    let loading = shared.store.read(move |tx| {
        let row = run::get(tx, lease.run)?;
        let row = row.ok_or_else(|| EngineError::not_found("run", lease.run))?;
        restore::load(tx, &row, &env)
    });
    loading.await
}

/// Prepares a restored run. A pending interruption stops the current turn first, so that the driver then reads the
/// new message. If other runs have changed the session while this run was parked, the run records that.
async fn take_up(
    shared: &EngineInner,
    lease: &Arc<Lease>,
    journal: &Arc<RunJournal>,
    mut machine: Run,
) -> Result<Run, EngineError> {
    use provost_agent::journal::Journal as _;
    let bug = |error: &dyn std::fmt::Display| EngineError::bug(error.to_string());
    let found = {
        let lease = Arc::clone(lease);
        shared.store.read(move |tx| {
            let interrupts = crate::input::interrupts(tx, &lease)?;
            let since = run::get(tx, lease.run)?.and_then(|row| row.base_revision).unwrap_or(0);
            let session = lease.session();
            let moved = session_entry::added_by_others(tx, session, lease.run, since)?;
            Ok::<_, EngineError>((interrupts, moved))
        })
    };
    let (interrupts, moved) = found.await?;
    let mut feeds = Vec::new();
    if moved && !machine.is_done() {
        // The context no longer matches the end of the session, so messages of others must not be removed by counting
        // from the end.
        let messages = machine.diff_context(machine.context());
        feeds.push(JournalEntry::ContextChanged { messages });
    }
    if interrupts && !machine.is_done() {
        let (reason, at) = (StopReason::Cancelled, shared.env.now());
        feeds.push(JournalEntry::Stopped { partial: None, cost: None, reason, limit: None, at });
    }
    for feed in feeds {
        journal.record(&feed).map_err(|error| bug(&error))?;
        machine.apply(feed).map_err(|error| bug(&error))?;
    }
    Ok(machine)
}
