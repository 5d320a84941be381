//! Creation of runs.

use std::time::Duration;

use provost_core::durable::{Accepted, DurableEvent};
use provost_core::lifecycle::{RunKind, RunState};
use provost_core::scheduling::TimerKind;
use provost_core::{RunId, Timestamp};
use provost_store::table::scheduling::timer;
use provost_store::table::work::input::InputRow;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task::TaskRow;
use provost_store::{Locked, Tx, Wakeup};

use super::{ClassAssignment, ParentRun};
use crate::error::EngineError;
use crate::input;
use crate::run::event;
use crate::submit::queue;
use provost_store::table::work::run_state::DEFERRED;

/// Settings of a new run.
pub(crate) struct NewRun<'a> {
    pub(crate) id: RunId,
    pub(crate) class: &'a ClassAssignment,
    pub(crate) not_before: Timestamp,
    pub(crate) parent: Option<&'a ParentRun>,
    /// Spawn options of a child, as JSON.
    pub(crate) spawn: Option<String>,
    /// Timeout of the run, counted from its start.
    pub(crate) timeout: Option<Duration>,
    /// Queue timeout of the request.
    pub(crate) queue_timeout: Option<Duration>,
    /// Rank in the queue. `None`: after all other runs of the session.
    pub(crate) rank: Option<i64>,
}

/// Inserts a run that answers these inputs, and saves its task. The caller updates the ready run of the session and
/// makes the run the current one of its task.
pub(crate) fn create_run(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    new: &NewRun<'_>,
    inputs: &[InputRow],
) -> Result<Locked<RunRow>, EngineError> {
    task.run_count += 1;
    let mut run = new_run_row(tx, task, new)?;
    enqueue(tx, task, &mut run, new)?;
    for input in inputs.iter().filter(|input| input.run_id != Some(run.id)) {
        input::assign(tx, input.id, run.id)?;
    }
    task.updated = tx.now();
    task.version += 1;
    task.save(tx)?;
    let mut run = run.insert_locked(tx)?;
    let new_run_row = Accepted {
        inputs: inputs.iter().map(|input| input.id).collect(),
        ordinal: run.ordinal,
        session: run.session_id.clone(),
        task: task.id,
    };
    event::append_event(tx, &mut run, DurableEvent::Accepted(new_run_row))?;
    if run.deadline.is_some() {
        tx.wake(Wakeup::Timer);
    }
    Ok(run)
}

/// Sets the rank of a new run and its queue timers.
fn enqueue(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    run: &mut RunRow,
    new: &NewRun<'_>,
) -> Result<(), EngineError> {
    let now = tx.now();
    let default_rank = queue::rank(now, task.priority);
    run.rank = match new.rank {
        Some(rank) => rank,
        None => unique_rank(tx, task, default_rank)?,
    };
    run.not_before = new.not_before;
    if new.not_before == DEFERRED {
        // A deferred run waits for siblings, not for a time or a worker.
        return Ok(());
    }
    if new.not_before > now {
        timer::set(tx, TimerKind::RunDue, &run.id.to_string(), new.not_before)?;
        tx.wake(Wakeup::Timer);
    }
    if let Some(timeout) = new.queue_timeout.or(new.class.queue_timeout) {
        // The queue timeout of a delayed run starts when the run is due.
        let deadline = run.not_before.max(now).after(timeout);
        run.queue_deadline = Some(deadline);
        timer::set(tx, TimerKind::QueueDeadline, &run.id.to_string(), deadline)?;
        tx.wake(Wakeup::Timer);
    }
    Ok(())
}

/// Returns the row of a new run, without its rank.
fn new_run_row(tx: &Tx<'_>, task: &TaskRow, new: &NewRun<'_>) -> Result<RunRow, EngineError> {
    let now = tx.now();
    let state = RunState::ACCEPTED;
    let timeout_ms = new.timeout.map(|timeout| timeout.as_millis());
    Ok(RunRow {
        id: new.id,
        namespace: task.namespace.clone(),
        task_id: task.id,
        ordinal: task.run_count,
        session_id: task.session_id.clone(),
        class_key: new.class.class.clone(),
        pool: new.class.pool.clone(),
        agent: task.agent.clone(),
        agent_revision: task.agent_revision,
        policy: new.class.policy.clone(),
        status: state.status(),
        phase: state.phase(),
        outcome_code: None,
        detail: None,
        ready: false,
        rank: 0,
        not_before: now,
        // The deadline of the request counts from the submission, the timeout of the run from its start.
        deadline: task.deadline,
        queue_deadline: None,
        timeout_ms: timeout_ms.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
        holds_session: false,
        parked_for: None,
        epoch: 0,
        lease_owner: None,
        lease_until: None,
        attempt_no: 0,
        claim_count: 0,
        crash_count: 0,
        failure_count: 0,
        cancel_requested: None,
        cancel_code: None,
        interrupt_requested: None,
        paused: None,
        next_seq: 1,
        next_step: 1,
        open_from: 1,
        restricted: false,
        base_revision: None,
        parent_run_id: new.parent.map(|parent| parent.run),
        parent_step: new.parent.map(|parent| parent.step),
        depth: new.parent.map_or(0, |parent| parent.depth + 1),
        spawn: new.spawn.clone(),
        forked_from: None,
        forked_step: None,
        min_build: crate::worker::claim::JOURNAL_FORMAT_VERSION,
        usage: None,
        cost_micros: 0,
        result: None,
        created: now,
        started: None,
        ended: None,
        kind: RunKind::Agent,
        resource_set: match new.parent {
            Some(parent) => parent.resource_set.clone(),
            None => new.class.resource_set.clone(),
        },
    })
}

/// Returns the first free rank of the session that is not below `rank`, so that later runs stay behind earlier ones
/// even within one millisecond.
pub(crate) fn unique_rank(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    mut rank: i64,
) -> Result<i64, EngineError> {
    while run::has_rank(tx, &task.namespace, &task.session_id, rank)? {
        rank = rank.saturating_add(1);
    }
    Ok(rank)
}
