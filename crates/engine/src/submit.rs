//! Submission: one transaction turns a task request into a session, a task, its first input and its first run.
//!
//! Invariant: every check that can reject a request runs before the first write, so a rejected request leaves no rows.

mod class_assignment;
pub(crate) mod execution_class;
mod idempotency;
pub(crate) mod queue;
mod request;
mod run;
pub(crate) mod schedule;
mod session;

use provost_core::command::TaskRequest;
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{InputOutcome, RequestError, TaskState};
use provost_core::usage::BudgetScope;
use provost_core::{InputId, RunId, TaskId};
use provost_failpoint::failpoint;
use provost_store::table::governance::budget;
use provost_store::table::work::run as run_row;
use provost_store::table::work::run_state::DEFERRED;
use provost_store::table::work::session::SessionRow;
use provost_store::table::work::task::{self, TaskRow};
use provost_store::{Locked, Tx};
use serde::{Deserialize, Serialize};

pub(crate) use self::class_assignment::ClassAssignment;
pub(crate) use self::request::{NewIds, SubmitRequest};
pub(crate) use self::run::{NewRun, create_run, unique_rank};
use crate::agent;
use crate::agent::AgentRevision;
use crate::approval::{self, ApprovalSettings};
use crate::error::EngineError;
use crate::input::{self, IncomingMessage};
pub(crate) use crate::submit::idempotency::IdempotencyRecord;
use provost_store::query::task::find_task;

/// Result of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitReceipt {
    /// Id of the task.
    pub task: TaskId,
    /// Run that answers the message.
    pub run: RunId,
    /// Id of the message.
    pub input: InputId,
    /// Id of the session.
    pub session: String,
    /// Treatment of the message.
    pub outcome: InputOutcome,
    /// True if an equal request with the same key was submitted before.
    #[serde(default, skip_serializing)]
    pub deduped: bool,
}

/// Submits a request, or returns the response that was stored under its idempotency key.
pub(crate) fn submit_in_tx(
    tx: &mut Tx<'_>,
    request: &SubmitRequest,
) -> Result<SubmitReceipt, EngineError> {
    if let Some(receipt) = request.idempotency.lookup_or_reserve::<SubmitReceipt>(tx)? {
        return Ok(SubmitReceipt { outcome: InputOutcome::Duplicate, deduped: true, ..receipt? });
    }
    check_run_id(tx, &request.command)?;
    let accepted = route(tx, request)?;
    request.idempotency.store_response(tx, accepted.task, &accepted)?;
    failpoint!("accept.before_commit");
    Ok(accepted)
}

/// Stores a rejection that applies to every repetition of the request.
pub(crate) fn store_rejection(
    tx: &mut Tx<'_>,
    request: &SubmitRequest,
    refusal: &RequestError,
) -> Result<(), EngineError> {
    request.idempotency.store_rejection::<SubmitReceipt>(tx, refusal)
}

/// Continues the task of the session, or creates one.
fn route(tx: &mut Tx<'_>, request: &SubmitRequest) -> Result<SubmitReceipt, EngineError> {
    let SubmitRequest { namespace, command, .. } = request;
    let session = session::find(tx, namespace, command)?;
    let message = request.incoming();
    let Some(task) = task_to_continue(tx, namespace, command, session.as_ref())? else {
        let new =
            NewTask { namespace, ids: NewIds::draw(tx, command), message: &message, parent: None };
        return create_in_session(tx, &new, session);
    };
    let task = lock_task(tx, namespace, task.id)?;
    let delivered = input::deliver(tx, task, None, &message)?;
    let task = find_task(tx, namespace, delivered.task)?;
    Ok(SubmitReceipt {
        task: delivered.task,
        run: delivered.run,
        input: delivered.input,
        session: task.session_id,
        outcome: delivered.outcome,
        deduped: false,
    })
}

/// Checks that a run id that the caller chose is free.
fn check_run_id(tx: &mut Tx<'_>, command: &TaskRequest) -> Result<(), EngineError> {
    let Some(id) = command.run_id else { return Ok(()) };
    if run_row::get(tx, id)?.is_some() {
        let fix = "choose a new one";
        return Err(RequestError::invalid("command.run_id", "cannot be used", fix).into());
    }
    Ok(())
}

/// Returns the task of the session that a request continues. `None` if it starts a new task.
fn task_to_continue(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    command: &TaskRequest,
    session: Option<&SessionRow>,
) -> Result<Option<TaskRow>, EngineError> {
    let Some(session) = session else { return Ok(None) };
    let agent = command.agent.as_deref();
    let newest = task::latest_for_agent(tx, namespace.as_str(), &session.id, agent)?;
    Ok(newest.filter(|task| command.is_follow_up_of(&task.agent, task.archived.is_some())))
}

/// A task to create with its first run.
pub(crate) struct NewTask<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) ids: NewIds,
    /// First message of the task.
    pub(crate) message: &'a IncomingMessage<'a>,
    pub(crate) parent: Option<ParentRun>,
}

/// Agent revision of a new task, and the class of its first run.
pub(crate) struct TaskAgent<'a> {
    pub(crate) revision: &'a AgentRevision,
    pub(crate) class: &'a ClassAssignment,
}

/// Parent run and step of a new task.
pub(crate) struct ParentRun {
    pub(crate) task: TaskId,
    pub(crate) run: RunId,
    pub(crate) step: u64,
    pub(crate) depth: u64,
    pub(crate) policy: ExecutionPolicy,
    /// Resource set of the parent run.
    pub(crate) resource_set: Option<String>,
    /// Spawn options as JSON.
    pub(crate) spawn: String,
    /// Position among the children of one call. `None` if the child was started with `spawn_task`.
    pub(crate) sibling: Option<SiblingPosition>,
}

/// Position of a child among the children of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SiblingPosition {
    /// Index of the child. Children start in this order.
    pub(crate) index: u32,
    /// True if another child must end before this one may start.
    pub(crate) is_deferred: bool,
}

/// Creates a task with its first run, in the session that its request names.
pub(crate) fn create_task(
    tx: &mut Tx<'_>,
    new: &NewTask<'_>,
) -> Result<SubmitReceipt, EngineError> {
    let session = session::find(tx, new.namespace, new.message.command)?;
    create_in_session(tx, new, session)
}

/// Creates a task in a session that was found, or in a new one.
fn create_in_session(
    tx: &mut Tx<'_>,
    new: &NewTask<'_>,
    session: Option<SessionRow>,
) -> Result<SubmitReceipt, EngineError> {
    let NewTask { namespace, message, parent, .. } = new;
    let command = message.command;
    let agent = command.agent.as_deref().or(session.as_ref().and_then(|row| row.agent.as_deref()));
    let revision = agent::resolve(tx, namespace, agent)?;
    let parent_policy = parent.as_ref().map(|parent| &parent.policy);
    let policy = revision.policy(&[command.policy.as_ref()], parent_policy)?;
    let class = ClassAssignment::new(tx, namespace, &revision, command.lane.as_deref(), &policy)?;
    insert_task(tx, new, &TaskAgent { revision: &revision, class: &class }, session)
}

/// Inserts a task with its first input and its first run. Creates a session if none is given.
pub(crate) fn insert_task(
    tx: &mut Tx<'_>,
    new: &NewTask<'_>,
    agent: &TaskAgent<'_>,
    session: Option<SessionRow>,
) -> Result<SubmitReceipt, EngineError> {
    let (now, command, parent) = (tx.now(), new.message.command, new.parent.as_ref());
    let TaskAgent { revision, class } = *agent;
    let session = session::open(tx, new, session, &revision.name)?;
    let mut task = task_row(tx, new, revision, session)?.insert_locked(tx)?;
    set_budget(tx, &task, command)?;
    let assignment = input::InputAssignment {
        mode: command.queue_mode.unwrap_or_default(),
        outcome: InputOutcome::Queued,
        run: Some(new.ids.run),
    };
    let input = input::insert(tx, &task, new.message, assignment)?;
    let sibling = parent.and_then(|parent| parent.sibling);
    let start = NewRun {
        id: new.ids.run,
        class,
        not_before: match sibling {
            Some(SiblingPosition { is_deferred: true, .. }) => DEFERRED,
            _ => now.after(command.delay()),
        },
        parent,
        spawn: parent.map(|parent| parent.spawn.clone()),
        timeout: command.timeout(),
        queue_timeout: command.queue_timeout(),
        rank: sibling
            .map(|child| queue::rank(now, task.priority).saturating_add(i64::from(child.index))),
    };
    let run = create_run(tx, &mut task, &start, std::slice::from_ref(&input))?;
    queue::refresh(tx, &run.namespace, &run.session_id)?;
    if sibling.is_none() && revision.config.approve_start {
        approval::request_start_approval(tx, run.id, ApprovalSettings::new(new.ids.approval))?;
    }
    Ok(SubmitReceipt {
        task: task.id,
        run: run.id,
        input: input.id,
        session: task.into_row().session_id,
        outcome: InputOutcome::Queued,
        deduped: false,
    })
}

/// Returns the row of a new task.
fn task_row(
    tx: &Tx<'_>,
    new: &NewTask<'_>,
    revision: &AgentRevision,
    session: String,
) -> Result<TaskRow, EngineError> {
    let (now, command) = (tx.now(), new.message.command);
    let delayed = !command.delay().is_zero();
    Ok(TaskRow {
        id: new.ids.task,
        namespace: new.namespace.to_string(),
        agent: revision.name.clone(),
        agent_revision: revision.revision,
        session_id: session,
        parent_task_id: new.parent.as_ref().map(|parent| parent.task),
        state: TaskState::accepted(delayed),
        queue_mode: command.queue_mode.unwrap_or_default(),
        priority: i64::from(command.priority),
        command: request::stored_command(command)?,
        label: command.label.clone(),
        spawned_by: command.spawned_by.clone(),
        current_run_id: Some(new.ids.run),
        run_count: 0,
        next_input: 1,
        drop_reason: None,
        waiting_for: None,
        wake_at: delayed.then(|| now.after(command.delay())),
        deadline: command.deadline,
        cost_micros: 0,
        version: 1,
        created: now,
        updated: now,
        ended: None,
        archived: None,
    })
}

/// Sets the budget of a task, if the request has one.
pub(crate) fn set_budget(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    command: &TaskRequest,
) -> Result<(), EngineError> {
    let Some(cap) = command.budget else { return Ok(()) };
    let row = budget::BudgetRow {
        namespace: task.namespace.clone(),
        scope: BudgetScope::Task(task.id),
        cap_micros: cap.micros(),
        spent_micros: 0,
        reserved_micros: 0,
        currency: cap.currency,
        period: None,
        period_start: None,
    };
    budget::set(tx, &row)?;
    Ok(())
}

/// Locks a task. Fails if it does not belong to the namespace.
pub(crate) fn lock_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: TaskId,
) -> Result<Locked<TaskRow>, EngineError> {
    task::lock_in(tx, namespace.as_str(), id)?.ok_or_else(|| EngineError::not_found("task", id))
}
