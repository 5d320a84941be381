//! Making runs.

use std::time::Duration;

use provost_core::work::{ClassKey, ExecPolicy, Namespace, RunState};
use provost_core::{RunId, Timestamp};
use provost_store::row::exec_class::{self, ExecClassRow};
use provost_store::row::input::InputRow;
use provost_store::row::run::{self, RunRow};
use provost_store::row::task::TaskRow;
use provost_store::row::timer;
use provost_store::{Hint, Tx};
use serde_json::json;

use super::{CLASS_DESIRED_DEFAULT, Parent};
use crate::end::DEADLINE;
use crate::error::EngineError;
use crate::queue::QUEUE_DEADLINE;
use crate::{event, input, queue};

/// What a new run of a task is made of.
pub(crate) struct NewRun<'a> {
    pub(crate) id: RunId,
    pub(crate) policy: &'a ExecPolicy,
    pub(crate) lane: Option<&'a str>,
    pub(crate) not_before: Timestamp,
    pub(crate) parent: Option<&'a Parent>,
    /// How long it may take once it has started.
    pub(crate) timeout: Option<Duration>,
    /// True if it is made together with its task.
    pub(crate) first: bool,
}

/// Makes a run that answers these inputs, and stores its task. The caller refreshes the queue of its session, and says if the
/// run answers for its task from now on.
pub(crate) fn create_run(
    tx: &mut Tx<'_>,
    task: &mut TaskRow,
    new: &NewRun<'_>,
    inputs: &[InputRow],
) -> Result<RunRow, EngineError> {
    task.run_count += 1;
    let class = class_of(tx, task, new)?;
    let rank = free_rank(tx, task, queue::rank(tx.now(), task.priority))?;
    let mut run = accepted(tx, task, new, class)?;
    run.rank = rank;
    queue::schedule(tx, &mut run, new.not_before)?;
    queue::start_clock(tx, &mut run)?;
    let ids: Vec<_> = inputs.iter().map(|input| input.id).collect();
    let body = json!({
        "task": task.id, "ordinal": run.ordinal, "session": run.session_id, "inputs": ids,
    });
    event::push(tx, &mut run, "accepted", body)?;
    for input in inputs.iter().filter(|input| input.run_id != Some(run.id)) {
        input::assign(tx, input, run.id)?;
    }
    task.updated = tx.now();
    task.version += 1;
    if new.first {
        task.insert(tx)?
    } else {
        task.update(tx)?
    }
    run.insert(tx)?;
    if let Some(deadline) = run.deadline {
        timer::set(tx, DEADLINE, &run.id.to_string(), deadline)?;
        tx.hint(Hint::Timer);
    }
    Ok(run)
}

/// The row of a run that was just taken in, without its place in the queue.
fn accepted(
    tx: &Tx<'_>,
    task: &TaskRow,
    new: &NewRun<'_>,
    class: ExecClassRow,
) -> Result<RunRow, EngineError> {
    let now = tx.now();
    let accepted = RunState::ACCEPTED;
    let timeout_ms = new.timeout.map(|timeout| timeout.as_millis());
    Ok(RunRow {
        id: new.id,
        namespace: task.namespace.clone(),
        task_id: task.id,
        ordinal: task.run_count,
        session_id: task.session_id.clone(),
        class_key: class.key,
        pool: class.pool,
        agent: task.agent.clone(),
        agent_revision: task.agent_revision,
        policy: serde_json::to_string(new.policy)?,
        status: accepted.status().as_str().to_owned(),
        phase: accepted.phase().as_str().to_owned(),
        outcome_code: None,
        detail: None,
        ready: false,
        rank: 0,
        not_before: now,
        // What the caller set counts from the beginning; the time of the run itself, from its start.
        deadline: task.deadline,
        queue_deadline: None,
        timeout_ms: timeout_ms.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
        holds_session: false,
        parked_for: None,
        waits: None,
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
        spawn: None,
        forked_from: None,
        forked_step: None,
        min_build: crate::claim::BUILD,
        usage: None,
        cost_micros: 0,
        result: None,
        created: now,
        started: None,
        ended: None,
    })
}

/// Sets when a run must have started, counted from when it is due.
pub(crate) fn limit_queueing(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    limit: Option<Duration>,
) -> Result<(), EngineError> {
    let Some(limit) = limit else { return Ok(()) };
    let at = run.not_before.max(tx.now()).after(limit);
    run.queue_deadline = Some(at);
    run.update(tx)?;
    timer::set(tx, QUEUE_DEADLINE, &run.id.to_string(), at)?;
    tx.hint(Hint::Timer);
    Ok(())
}

/// The first rank from the given one on that no waiting run of the session has: what came later stays behind, also within
/// one tick of the clock.
pub(crate) fn free_rank(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    mut rank: i64,
) -> Result<i64, EngineError> {
    while run::has_rank(tx, &task.namespace, &task.session_id, rank)? {
        rank = rank.saturating_add(1);
    }
    Ok(rank)
}

fn class_of(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    new: &NewRun<'_>,
) -> Result<ExecClassRow, EngineError> {
    let namespace: Namespace = crate::state::word(&task.namespace)?;
    let key = ClassKey::new(&namespace, Some(&task.agent), new.lane, new.policy);
    let class = ExecClassRow {
        key: key.as_str().to_owned(),
        namespace: task.namespace.clone(),
        agent: Some(task.agent.clone()),
        lane: new.lane.map(str::to_owned),
        pool: "default".to_owned(),
        desired: CLASS_DESIRED_DEFAULT,
        running: 0,
        health: "healthy".to_owned(),
        failures: "[]".to_owned(),
        probe_at: None,
        turn: 0,
        updated: tx.now(),
    };
    Ok(exec_class::ensure(tx, &class)?)
}
