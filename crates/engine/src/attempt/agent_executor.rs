//! Executor of agent runs: drives the loop of the crate `provost-agent` and journals it.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::run::{JournalEntry, Run};
use provost_agent::{ApprovalMode, HostContext, RunBuilder};
use provost_core::StopReason;
use provost_core::lifecycle::RunKind;
use provost_core::resource::AgentSpec;
use provost_failpoint::failpoint;
use provost_store::table::work::{run, session_entry};
use provost_tool::{CallOrigin, Deps, Grants};
use tracing::Instrument;

use super::drive::{self, DriveResult, drive};
use super::executor::{ExecutionResult, Executor, JournalPosition};
use super::{AttemptSignal, RunningAttempt};
use crate::attempt::instructions::AdditionalInstructions;
use crate::attempt::outcome::AttemptOutcome;
use crate::attempt::restore::{self, RestoredRun, RunHeader};
use crate::attempt::workspace;
use crate::child::team;
use crate::child::{ChildOrigin, ChildToolContext, DurableChildSpawner};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::journal::{JournalState, RunJournal, shared_state};
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

/// Prepares and drives a run. Returns `None` if the attempt was abandoned.
async fn execute(
    shared: &EngineInner,
    live: &RunningAttempt,
) -> Result<Option<ExecutionResult>, EngineError> {
    failpoint!("attempt.claimed");
    let mut signal = live.signal.subscribe();
    let prepared = tokio::select! {
        biased;
        prepared = prepare(shared, live) => prepared?,
        // Nothing has happened yet.
        _ = signal.wait_for(|signal| *signal == AttemptSignal::Abandon) => return Ok(None),
    };
    let PreparedAttempt { builder, journal, timers, span } = prepared;
    let result = drive(builder, live, &journal, timers).instrument(span).await;
    let position = JournalPosition::of(&journal);
    Ok(match result {
        DriveResult::Abandoned => None,
        DriveResult::Boundary => {
            Some(ExecutionResult { outcome: AttemptOutcome::Drained, position })
        }
        DriveResult::Ended(outcome) => {
            Some(ExecutionResult { outcome: AttemptOutcome::from_driver(*outcome), position })
        }
        DriveResult::TimedOut(outcome) => {
            Some(ExecutionResult { outcome, position: JournalPosition::default() })
        }
    })
}

/// A run that is ready to be driven, with its journal and timers.
struct PreparedAttempt {
    builder: RunBuilder,
    journal: Arc<RunJournal>,
    timers: drive::AttemptTimers,
    span: tracing::Span,
}

/// Loads the stored run, builds its agent, and connects the run with its journal, children and team.
async fn prepare(
    shared: &EngineInner,
    live: &RunningAttempt,
) -> Result<PreparedAttempt, EngineError> {
    let lease = &live.lease;
    let loaded = load(shared, lease).await?;
    let RunHeader { extra, by, child_origin } = loaded.header;
    let RestoredRun { machine, message, revision, mut journal, agent, .. } = loaded;
    let owners = shared_state::owners(lease, loaded.user.as_deref());
    journal.user = loaded.user;
    let agent_revision = shared.agent_revisions.get(&shared.store, agent).await?;
    let journal = open_journal(shared, lease, journal);
    live.write_to(&journal);
    let agent = shared.agents.build(&agent_revision, lease).await?;
    let agent = match &child_origin {
        Some(child_origin) => child_origin.agent(&agent)?,
        None => agent,
    };
    let received_at = match &machine {
        Some(_) => None,
        None => message.as_ref().map(|message| message.created_at),
    };
    let builder = match (machine, message) {
        (Some(machine), _) => {
            workspace::check_workspace(shared, lease, &journal).await?;
            let machine = resume_machine(shared, lease, &journal, machine).await?;
            agent.restore(machine, revision)
        }
        (None, Some(message)) => agent.run(message.parts),
        (None, None) => return Err(EngineError::bug("a run without a message")),
    };
    let span = ChildOrigin::span(child_origin.as_ref(), lease.run);
    let member = team::load_member(shared, child_origin.as_ref()).await?;
    let spawner = Arc::new(DurableChildSpawner::new(
        ChildToolContext::new(shared, lease, &journal),
        child_origin.as_ref(),
    ));
    let host = HostContext {
        guard: Arc::clone(&shared.guard),
        run_id: Some(lease.run),
        received_at,
        journal: Some(journal.clone()),
        shared_values: Some((owners, loaded.shared)),
        spawner: Some(spawner),
        membership: team::team_membership(shared, lease, agent.initial_team_state(), member),
        parent: child_origin.as_ref().map(ChildOrigin::parent),
        max_turns: child_origin.as_ref().and_then(ChildOrigin::max_turns),
    };
    let builder = builder
        .host(host)
        .session_in(journal.clone(), lease.session.clone())
        .deps(tool_deps(shared, lease, &journal))
        .origin(call_origin(lease, by, &agent_revision.config))
        .approvals(ApprovalMode::Suspend);
    let builder = match extra {
        Some(extra) => builder.hook(AdditionalInstructions(extra)),
        None => builder,
    };
    let timers = drive::AttemptTimers::new(agent_revision.config.timeouts, &shared.options);
    Ok(PreparedAttempt { builder, journal, timers, span })
}

/// Returns the origin of the tool calls of a run.
fn call_origin(lease: &Lease, principal: Option<String>, spec: &AgentSpec) -> CallOrigin {
    CallOrigin {
        namespace: lease.namespace.clone(),
        task: lease.task.to_string(),
        worker: lease.worker.to_string(),
        principal: principal.unwrap_or_default(),
        grants: Grants::of_spec(spec),
        ..CallOrigin::default()
    }
}

/// Creates the journal of an attempt.
fn open_journal(shared: &EngineInner, lease: &Arc<Lease>, state: JournalState) -> Arc<RunJournal> {
    let (store, on_unknown) = (shared.store.clone(), shared.options.on_unknown);
    let budgeted = !lease.budgets.is_empty();
    Arc::new(RunJournal::new(store, Arc::clone(lease), state, on_unknown, budgeted))
}

/// Returns the values that the engine provides to the tools of a run.
fn tool_deps(shared: &EngineInner, lease: &Arc<Lease>, journal: &Arc<RunJournal>) -> Deps {
    Deps::default()
        .with_shared(journal.transactional())
        .with(ChildToolContext::new(shared, lease, journal))
}

/// Loads the stored state of the run.
async fn load(shared: &EngineInner, lease: &Arc<Lease>) -> Result<RestoredRun, EngineError> {
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
async fn resume_machine(
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
            let session_changed = session_entry::added_by_others(tx, session, lease.run, since)?;
            Ok::<_, EngineError>((interrupts, session_changed))
        })
    };
    let (interrupts, session_changed) = found.await?;
    let mut entries = Vec::new();
    if session_changed && !machine.is_done() {
        // The context no longer matches the end of the session, so messages of others must not be removed by counting
        // from the end.
        let messages = machine.diff_context(machine.context());
        entries.push(JournalEntry::ContextChanged { messages });
    }
    if interrupts && !machine.is_done() {
        let (reason, at) = (StopReason::Cancelled, shared.env.now());
        entries.push(JournalEntry::Stopped { partial: None, cost: None, reason, limit: None, at });
    }
    for entry in entries {
        journal.record(&entry).map_err(|error| bug(&error))?;
        machine.apply(entry).map_err(|error| bug(&error))?;
    }
    Ok(machine)
}
