//! Follow-up runs of a task: one for each later message, in the order of the messages.

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

use crate::agent::AgentRevision;
use crate::child;
use crate::error::EngineError;
use crate::input::{MessageOrigin, has_begun};
use crate::run::event;
use crate::run::lifecycle::try_transition_task;
use crate::submit::queue;
use crate::submit::{self, ClassAssignment, NewRun};

/// Agent revision and policy of a follow-up run.
pub(crate) struct FollowUpContext {
    /// Request that created the task.
    command: TaskRequest,
    policy: ExecutionPolicy,
    /// Current revision of the agent.
    revision: u64,
}

/// Settings of one follow-up run.
pub(crate) struct FollowUpRun<'a> {
    pub(crate) id: RunId,
    pub(crate) not_before: Timestamp,
    /// Request that starts the run.
    pub(crate) command: &'a TaskRequest,
    /// Rank in the queue. `None`: after all other runs of the session.
    pub(crate) rank: Option<i64>,
}

/// Resolves the agent of a follow-up run: its newest revision, or the revision of the task if the agent was deleted.
pub(crate) fn follow_up_context(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    call: Option<&ExecutionPolicyPatch>,
) -> Result<FollowUpContext, EngineError> {
    let command: TaskRequest = serde_json::from_str(&task.command)?;
    let last = run::last_of_task(tx, task.id)?;
    let newest = agent_row::latest(tx, &task.namespace, &task.agent)?;
    if let Some(row) = newest.filter(|row| row.deleted.is_none()) {
        // A child may never do more than its first run.
        let ceiling = match &last {
            Some(run) if task.parent_task_id.is_some() => Some(run.execution_policy()?),
            _ => None,
        };
        let revision = AgentRevision::from_row(row)?;
        let policy = revision.policy(&[command.policy.as_ref(), call], ceiling.as_ref())?;
        return Ok(FollowUpContext { command, policy, revision: revision.revision });
    }
    let missing = || EngineError::not_found("agent", &task.agent);
    let policy = last.ok_or_else(missing)?.execution_policy()?;
    let policy = call.map_or_else(|| policy.clone(), |patch| policy.restricted_by(patch));
    Ok(FollowUpContext { command, policy, revision: task.agent_revision })
}

/// Creates a follow-up run that starts with these inputs.
pub(crate) fn start(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    follow_up_context: &FollowUpContext,
    start: &FollowUpRun<'_>,
    inputs: &[InputRow],
) -> Result<RunId, EngineError> {
    let FollowUpContext { command, policy, revision } = follow_up_context;
    let timeout_ms = start.command.timeout_ms.or(command.timeout_ms);
    let timeout = TaskRequest { timeout_ms, ..TaskRequest::default() }.timeout();
    task.agent_revision = *revision;
    close_collected(tx, task)?;
    let lane = start.command.lane.as_deref().or(command.lane.as_deref());
    let class = ClassAssignment::of_task(tx, task, lane, policy)?;
    // A follow-up run of a child has the same agent as the child.
    let before = run::last_of_task(tx, task.id)?;
    let new = NewRun {
        id: start.id,
        class: &class,
        not_before: start.not_before,
        parent: None,
        spawn: before.as_ref().map(child::spawn_options_for_continuation).transpose()?.flatten(),
        timeout,
        queue_timeout: start.command.queue_timeout(),
        rank: start.rank,
    };
    let run = submit::create_run(tx, task, &new, inputs)?;
    activate_next_run(tx, task)?;
    queue::refresh(tx, &run.namespace, &run.session_id)?;
    Ok(run.id)
}

/// Makes earlier collected turns due. Nothing can join them any more, and later messages must not overtake them.
fn close_collected(tx: &mut Tx<'_>, task: &TaskRow) -> Result<(), EngineError> {
    let now = tx.now();
    for mut run in run::lock_live_of_task(tx, task.id)? {
        if has_begun(&run) || run.not_before <= now {
            continue;
        }
        let waiting = input::pending_of_run(tx, run.id)?;
        let collected = InputOutcome::Collected;
        if !waiting.is_empty() && waiting.iter().all(|row| row.outcome == collected) {
            queue::schedule(tx, &mut run, now)?;
            run.save(tx)?;
        }
    }
    Ok(())
}

/// Continues a task after the end of a run: assigns unanswered inputs to new runs and makes the next run current.
pub(crate) fn start_next(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    ended: &RunRow,
) -> Result<(), EngineError> {
    let unanswered = input::unconsumed(tx, ended.id)?;
    if !unanswered.is_empty() {
        retire_read_messages(tx, ended, &unanswered)?;
        requeue_unanswered(tx, task, ended, unanswered)?;
        restore_order(tx, task)?;
    }
    activate_next_run(tx, task)
}

/// Makes the next run the current run of its task if the current run has ended, and moves the task to the state of that
/// run.
fn activate_next_run(tx: &mut Tx<'_>, task: &mut Locked<TaskRow>) -> Result<(), EngineError> {
    let live = run::live_of_task(tx, task.id)?;
    let Some(next) = live.first() else { return Ok(()) };
    if let Some(current) = live.iter().find(|run| task.current_run_id == Some(run.id)) {
        if next.attempt_no == 0 && task.state == TaskState::Running {
            // Another run was active for the task, and it has ended.
            let is_delayed = current.not_before > tx.now();
            let event = if is_delayed { TaskTransition::Delayed } else { TaskTransition::Requeued };
            let _applied = try_transition_task(tx, task, event)?;
        }
        return Ok(());
    }
    task.current_run_id = Some(next.id);
    task.waiting_for = None;
    task.save(tx)?;
    for event in [TaskTransition::Reopened, TaskTransition::Requeued] {
        let _applied = try_transition_task(tx, task, event)?;
    }
    if next.attempt_no > 0 {
        let _applied = try_transition_task(tx, task, TaskTransition::Dispatched)?;
    }
    Ok(())
}

/// Removes messages from the session that the ended run had read without an answer. The next run adds them again.
fn retire_read_messages(
    tx: &mut Tx<'_>,
    ended: &RunRow,
    unanswered: &[InputRow],
) -> Result<(), EngineError> {
    let read: Vec<_> = unanswered.iter().filter(|row| row.state == InputState::Claimed).collect();
    if read.is_empty() {
        return Ok(());
    }
    let Some(mut session) = session::lock(tx, &ended.namespace, &ended.session_id)? else {
        return Ok(());
    };
    let mut retired = 0;
    for row in read {
        let (place, revision) = (ended.session(), session.revision + 1);
        retired += session_entry::remove_message(tx, place, ended.id, row.message_id, revision)?;
    }
    if retired > 0 {
        session.revision += 1;
        session.updated = tx.now();
        session.save(tx)?;
    }
    Ok(())
}

/// Assigns the unanswered inputs of an ended run to new runs. Inputs that can be merged stay together.
fn requeue_unanswered(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    ended: &RunRow,
    unanswered: Vec<InputRow>,
) -> Result<(), EngineError> {
    let follow_up_context = match follow_up_context(tx, task, None) {
        Ok(follow_up_context) => follow_up_context,
        // An accepted message is answered even if the agent cannot be resolved again.
        Err(EngineError::Request(_)) => FollowUpContext {
            command: serde_json::from_str(&task.command)?,
            policy: ended.execution_policy()?,
            revision: ended.agent_revision,
        },
        Err(error) => return Err(error),
    };
    let now = tx.now();
    let mut groups: Vec<(MessageOrigin, Vec<InputRow>)> = Vec::new();
    for row in unanswered {
        let origin = MessageOrigin::of(&row)?;
        input::requeue(tx, row.id, InputOutcome::Queued)?;
        match groups.last_mut() {
            Some((known, rows)) if known.can_merge(&origin) => rows.push(row),
            _ => groups.push((origin, vec![row])),
        }
    }
    let command = TaskRequest {
        queue_timeout_ms: follow_up_context.command.queue_timeout_ms,
        ..TaskRequest::default()
    };
    for (_, rows) in groups {
        let Some(first) = rows.first() else { continue };
        let rank = submit::unique_rank(tx, task, queue::rank(first.created, task.priority))?;
        // The id follows from the inputs, so a repeated transaction gives the same id.
        let id = follow_up_run_id(ended.id, first.id);
        let start_at = FollowUpRun { id, not_before: now, command: &command, rank: Some(rank) };
        start(tx, task, &follow_up_context, &start_at, &rows)?;
        if let Some(mut run) = run::lock(tx, id)? {
            let taken_over = SteerFallback::TakenOver { from: ended.id };
            event::append_event(tx, &mut run, DurableEvent::SteerFallback(taken_over))?;
            run.save(tx)?;
        }
    }
    Ok(())
}

/// Raises the ranks of the waiting runs of a task, so that they start in the order of their messages.
fn restore_order(tx: &mut Tx<'_>, task: &TaskRow) -> Result<(), EngineError> {
    let mut waiting = Vec::new();
    for run in run::lock_live_of_task(tx, task.id)? {
        if !has_begun(&run) {
            let first = input::pending_of_run(tx, run.id)?.iter().map(|row| row.seq).min();
            waiting.push((first.unwrap_or(u64::MAX), run));
        }
    }
    waiting.sort_by_key(|(first, _)| *first);
    let mut min_rank = i64::MIN;
    for (_, mut run) in waiting {
        if run.rank < min_rank {
            run.rank = min_rank;
            run.save(tx)?;
        }
        min_rank = run.rank.saturating_add(1);
    }
    queue::refresh(tx, &task.namespace, &task.session_id)
}
