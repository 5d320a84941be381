//! The further runs of a task: one for each thing said after the first, in the order in which it was said.

use provost_core::command::TaskRequest;
use provost_core::durable::{DurableEvent, SteerFallback};
use provost_core::execution_policy::{ExecutionPolicy, ExecutionPolicyPatch};
use provost_core::lifecycle::{InputOutcome, InputState, TaskState, TaskTransition};
use provost_core::recovery::follow_up_run_id;
use provost_core::{RunId, Timestamp};
use provost_store::table::governance::agent as agent_row;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task::TaskRow;
use provost_store::table::work::{session, session_entry};
use provost_store::{Locked, Tx};

use crate::agent::AgentProfile;
use crate::error::EngineError;
use crate::input::{Origin, has_begun};
use crate::run::event;
use crate::run::lifecycle::{move_task, policy, word};
use crate::submit::{self, ClassAssignment, NewRun};
use crate::{child, queue};

/// What a further run of a task stands on.
pub(crate) struct Footing {
    /// What the task was made with.
    command: TaskRequest,
    policy: ExecutionPolicy,
    /// The revision of the agent that counts now.
    revision: u64,
}

/// What is different for each further run.
pub(crate) struct Start<'a> {
    pub(crate) id: RunId,
    pub(crate) not_before: Timestamp,
    /// The command that asks for it.
    pub(crate) command: &'a TaskRequest,
    /// Its place in the queue, if that is not the last.
    pub(crate) rank: Option<i64>,
}

/// What a further run stands on: the agent as it is now, and as the task had it if the agent was deleted.
pub(crate) fn footing(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    call: Option<&ExecutionPolicyPatch>,
) -> Result<Footing, EngineError> {
    let command: TaskRequest = serde_json::from_str(&task.command)?;
    let last = run::last_of_task(tx, task.id)?;
    let newest = agent_row::latest(tx, &task.namespace, &task.agent)?;
    if let Some(row) = newest.filter(|row| row.deleted.is_none()) {
        // A child never may do more than what it was made with.
        let ceiling = match &last {
            Some(run) if task.parent_task_id.is_some() => Some(policy(run)?),
            _ => None,
        };
        let profile = AgentProfile::read(row)?;
        let policy = profile.policy(&[command.policy.as_ref(), call], ceiling.as_ref())?;
        return Ok(Footing { command, policy, revision: profile.revision });
    }
    let missing = || EngineError::not_found("agent", &task.agent);
    let policy = policy(&last.ok_or_else(missing)?)?;
    let policy = call.map_or_else(|| policy.clone(), |patch| policy.restricted_by(patch));
    Ok(Footing { command, policy, revision: task.agent_revision })
}

/// Makes a further run that begins with these inputs.
pub(crate) fn start(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    footing: &Footing,
    start: &Start<'_>,
    inputs: &[InputRow],
) -> Result<RunId, EngineError> {
    let Footing { command, policy, revision } = footing;
    let timeout_ms = start.command.timeout_ms.or(command.timeout_ms);
    let timeout = TaskRequest { timeout_ms, ..TaskRequest::default() }.timeout();
    task.agent_revision = *revision;
    close_collected(tx, task)?;
    let lane = start.command.lane.as_deref().or(command.lane.as_deref());
    let class = ClassAssignment::of_task(tx, task, lane, policy)?;
    // Whoever speaks to a child again speaks to the same agent.
    let before = run::last_of_task(tx, task.id)?;
    let new = NewRun {
        id: start.id,
        class: &class,
        not_before: start.not_before,
        parent: None,
        spawn: before.as_ref().map(child::born_like).transpose()?.flatten(),
        timeout,
        queue_timeout: start.command.queue_timeout(),
        rank: start.rank,
    };
    let run = submit::create_run(tx, task, &new, inputs)?;
    go_on(tx, task)?;
    queue::refresh(tx, &run.namespace, &run.session_id)?;
    Ok(run.id)
}

/// Nothing can join a collected turn that is not the last one any more: it need not wait, and what comes must not overtake it.
fn close_collected(tx: &mut Tx<'_>, task: &TaskRow) -> Result<(), EngineError> {
    let now = tx.now();
    for mut run in run::lock_live_of_task(tx, task.id)? {
        if has_begun(&run) || run.not_before <= now {
            continue;
        }
        let waiting = input::waiting_for_run(tx, run.id)?;
        let collected = InputOutcome::Collected.as_str();
        if !waiting.is_empty() && waiting.iter().all(|row| row.outcome == collected) {
            queue::schedule(tx, &mut run, now)?;
            run.save(tx)?;
        }
    }
    Ok(())
}

/// What follows the end of a run: what it left unanswered gets runs, and the next one answers for the task.
pub(crate) fn start_next(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    ended: &RunRow,
) -> Result<(), EngineError> {
    let left = input::unanswered(tx, ended.id)?;
    if !left.is_empty() {
        forget(tx, ended, &left)?;
        fall_back(tx, task, ended, left)?;
        in_order(tx, task)?;
    }
    go_on(tx, task)
}

/// Lets the next run answer for the task if the one that did has ended.
fn go_on(tx: &mut Tx<'_>, task: &mut Locked<TaskRow>) -> Result<(), EngineError> {
    let live = run::live_of_task(tx, task.id)?;
    let Some(next) = live.first() else { return Ok(()) };
    if let Some(current) = live.iter().find(|run| task.current_run_id == Some(run.id)) {
        if next.attempt_no == 0 && word::<TaskState>(&task.state)? == TaskState::Running {
            // What worked for it was another run, and that is over.
            let asleep = current.not_before > tx.now();
            let event = if asleep { TaskTransition::Delayed } else { TaskTransition::Requeued };
            move_task(tx, task, event)?;
        }
        return Ok(());
    }
    task.current_run_id = Some(next.id);
    task.waiting_for = None;
    task.save(tx)?;
    for event in [TaskTransition::Reopened, TaskTransition::Requeued] {
        move_task(tx, task, event)?;
    }
    if next.attempt_no > 0 {
        move_task(tx, task, TaskTransition::Dispatched)?;
    }
    Ok(())
}

/// What the ended run had read without an answer leaves the session: it is said again.
fn forget(tx: &mut Tx<'_>, ended: &RunRow, left: &[InputRow]) -> Result<(), EngineError> {
    let read: Vec<_> =
        left.iter().filter(|row| row.state == InputState::Claimed.as_str()).collect();
    if read.is_empty() {
        return Ok(());
    }
    let Some(mut session) = session::lock(tx, &ended.namespace, &ended.session_id)? else {
        return Ok(());
    };
    let mut gone = 0;
    for row in read {
        let (place, revision) = (ended.session(), session.revision + 1);
        gone += session_entry::retire_message(tx, place, ended.id, row.message_id, revision)?;
    }
    if gone > 0 {
        session.revision += 1;
        session.updated = tx.now();
        session.save(tx)?;
    }
    Ok(())
}

/// Gives runs to what was meant for one that has ended. What would have been read together stays together.
fn fall_back(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    ended: &RunRow,
    left: Vec<InputRow>,
) -> Result<(), EngineError> {
    let footing = match footing(tx, task, None) {
        Ok(footing) => footing,
        // What is accepted is answered, also where the agent could not be asked anew.
        Err(EngineError::Request(_)) => Footing {
            command: serde_json::from_str(&task.command)?,
            policy: policy(ended)?,
            revision: ended.agent_revision,
        },
        Err(error) => return Err(error),
    };
    let now = tx.now();
    let mut groups: Vec<(Origin, Vec<InputRow>)> = Vec::new();
    for row in left {
        let origin = Origin::of(&row)?;
        input::requeue(tx, row.id, InputOutcome::Queued.as_str())?;
        match groups.last_mut() {
            Some((known, rows)) if known.can_merge(&origin) => rows.push(row),
            _ => groups.push((origin, vec![row])),
        }
    }
    let command = TaskRequest {
        queue_timeout_ms: footing.command.queue_timeout_ms,
        ..TaskRequest::default()
    };
    for (_, rows) in groups {
        let Some(first) = rows.first() else { continue };
        let rank = submit::free_rank(tx, task, queue::rank(first.created, task.priority))?;
        // The same whenever this transaction is tried again, and no other run has it.
        let id = follow_up_run_id(ended.id, first.id);
        let start_at = Start { id, not_before: now, command: &command, rank: Some(rank) };
        start(tx, task, &footing, &start_at, &rows)?;
        if let Some(mut run) = run::lock(tx, id)? {
            let taken_over = SteerFallback::TakenOver { from: ended.id };
            event::append_event(tx, &mut run, DurableEvent::SteerFallback(taken_over))?;
            run.save(tx)?;
        }
    }
    Ok(())
}

/// Lets the waiting runs of a task follow each other as their messages came.
fn in_order(tx: &mut Tx<'_>, task: &TaskRow) -> Result<(), EngineError> {
    let mut waiting = Vec::new();
    for run in run::lock_live_of_task(tx, task.id)? {
        if !has_begun(&run) {
            let first = input::waiting_for_run(tx, run.id)?.iter().map(|row| row.seq).min();
            waiting.push((first.unwrap_or(u64::MAX), run));
        }
    }
    waiting.sort_by_key(|(first, _)| *first);
    let mut least = i64::MIN;
    for (_, mut run) in waiting {
        if run.rank < least {
            run.rank = least;
            run.save(tx)?;
        }
        least = run.rank.saturating_add(1);
    }
    queue::refresh(tx, &task.namespace, &task.session_id)
}
