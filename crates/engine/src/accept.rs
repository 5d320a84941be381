//! Taking work in: once, whatever the caller repeats.
//!
//! Invariant: everything that can refuse a command is asked before the first row is written, so a refusal leaves nothing
//! behind, and a refusal by policy can be remembered.

mod memory;
mod run;
mod session;

use provost_core::work::{
    AgentCommand, DeliveryOutcome, ExecPolicy, Namespace, TaskState, WorkError,
};
use provost_core::{Env, InputId, RunId, TaskId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::row::task::{self, TaskRow};
use provost_store::row::{budget, run as run_row};
use serde::{Deserialize, Serialize};

pub(crate) use self::memory::Memory;
pub(crate) use self::run::{NewRun, create_run, free_rank, limit_queueing};
use crate::approval::{self, Asking};
use crate::error::EngineError;
use crate::input::{self, Said};
use crate::{agent, queue};

/// How many runs of a class work at once unless somebody says otherwise.
pub const CLASS_DESIRED_DEFAULT: u64 = 8;

/// What the engine answers to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The task.
    pub task: TaskId,
    /// The run that answers.
    pub run: RunId,
    /// The message that was taken in.
    pub input: InputId,
    /// The session.
    pub session: String,
    /// What becomes of the message.
    pub outcome: DeliveryOutcome,
    /// True if this very command had been accepted before.
    #[serde(default, skip_serializing)]
    pub deduped: bool,
}

/// Accepts a command, or gives the answer it was given before. A refusal is an error and is not remembered.
pub(crate) fn accept(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    command: &AgentCommand,
    env: &Env,
) -> Result<Accepted, EngineError> {
    decide(tx, namespace, command, env)?.map_err(EngineError::Work)
}

/// Accepts or refuses a command. A refusal that counts for every repeat is stored and given as a value; what may pass is
/// an error, which leaves nothing behind.
pub(crate) fn decide(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    command: &AgentCommand,
    env: &Env,
) -> Result<Result<Accepted, WorkError>, EngineError> {
    command.validate()?;
    let memory = Memory::of_command(namespace, command)?;
    if let Some(answered) = memory.recall::<Accepted>(tx)? {
        let again =
            |accepted| Accepted { outcome: DeliveryOutcome::Duplicate, deduped: true, ..accepted };
        return Ok(answered.map(again));
    }
    check_run_id(tx, command)?;
    let key = memory.input_key(env);
    let said = Said::new(command, &key, env);
    let accepted = match take_in(tx, namespace, &said) {
        Ok(accepted) => accepted,
        Err(EngineError::Work(refusal)) if refusal.is_remembered() => {
            memory.refuse(tx, &refusal)?;
            return Ok(Err(refusal));
        }
        Err(error) => return Err(error),
    };
    memory.keep(tx, &accepted)?;
    failpoint!("accept.before_commit");
    Ok(Ok(accepted))
}

fn take_in(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    said: &Said<'_>,
) -> Result<Accepted, EngineError> {
    match continued_task(tx, namespace, said.command)? {
        Some(task) => {
            let delivered = input::deliver(tx, task, None, said)?;
            let task = find_task(tx, namespace, delivered.task)?;
            Ok(Accepted {
                task: delivered.task,
                run: delivered.run,
                input: delivered.input,
                session: task.session_id,
                outcome: delivered.outcome,
                deduped: false,
            })
        }
        None => {
            let new = NewTask {
                task: said.env.id(),
                run: said.command.run_id.unwrap_or_else(|| said.env.id()),
                parent: None,
            };
            create_task(tx, namespace, said, &new)
        }
    }
}

/// A run id that a caller chose must be free.
fn check_run_id(tx: &mut Tx<'_>, command: &AgentCommand) -> Result<(), EngineError> {
    let Some(id) = command.run_id else { return Ok(()) };
    if run_row::get(tx, id)?.is_some() {
        let fix = "choose a new one";
        return Err(WorkError::invalid("command.run_id", "cannot be used", fix).into());
    }
    Ok(())
}

/// The task that a command goes on with, if its session has one.
fn continued_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    command: &AgentCommand,
) -> Result<Option<TaskRow>, EngineError> {
    let Some(session) = session::named(tx, namespace, command)? else { return Ok(None) };
    let agent = command.agent.as_deref();
    let newest = task::newest_asked(tx, namespace.as_str(), &session.id, agent)?;
    Ok(newest.filter(|task| command.continues(&task.agent, task.archived.is_some())))
}

/// The ids of a task in the making; a child's are known before it exists.
pub(crate) struct NewTask {
    pub(crate) task: TaskId,
    pub(crate) run: RunId,
    pub(crate) parent: Option<Parent>,
}

/// The run and step that a task is made for.
pub(crate) struct Parent {
    pub(crate) task: TaskId,
    pub(crate) run: RunId,
    pub(crate) step: u64,
    pub(crate) depth: u64,
    pub(crate) policy: ExecPolicy,
    /// True if the agent is part of the one above it, and not one of its own.
    pub(crate) defined: bool,
}

/// Makes a task with its first run.
pub(crate) fn create_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    said: &Said<'_>,
    new: &NewTask,
) -> Result<Accepted, EngineError> {
    let (now, command) = (tx.now(), said.command);
    let known = session::named(tx, namespace, command)?;
    let agent = command.agent.as_deref().or(known.as_ref().and_then(|row| row.agent.as_deref()));
    let profile = agent::resolve(tx, namespace, agent)?;
    let parent = new.parent.as_ref();
    let policy = profile.policy(&[command.policy.as_ref()], parent.map(|parent| &parent.policy))?;
    let session = session::open(tx, namespace, command, &profile.name, said.env)?;
    let delayed = !command.delay().is_zero();
    let mut task = TaskRow {
        id: new.task,
        namespace: namespace.to_string(),
        agent: profile.name.clone(),
        agent_revision: profile.revision,
        session_id: session.id.clone(),
        parent_task_id: parent.map(|parent| parent.task),
        state: TaskState::accepted(delayed).as_str().to_owned(),
        queue_mode: command.queue_mode.unwrap_or_default().as_str().to_owned(),
        priority: i64::from(command.priority),
        command: serde_json::to_string(&stored(command))?,
        label: command.label.clone(),
        spawned_by: command.spawned_by.clone(),
        current_run_id: None,
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
    };
    set_budget(tx, &task, command)?;
    let mode = command.queue_mode.unwrap_or_default();
    let place = input::Place { mode, outcome: DeliveryOutcome::Queued, run: Some(new.run) };
    let input = input::insert(tx, &mut task, said, place)?;
    let start = NewRun {
        id: new.run,
        policy: &policy,
        lane: command.lane.as_deref(),
        not_before: now.after(command.delay()),
        parent,
        timeout: command.timeout(),
        first: true,
    };
    task.current_run_id = Some(new.run);
    let mut run = create_run(tx, &mut task, &start, std::slice::from_ref(&input))?;
    limit_queueing(tx, &mut run, command.queue_timeout())?;
    queue::refresh(tx, &run.namespace, &run.session_id)?;
    let is_part = parent.is_some_and(|parent| parent.defined);
    if !is_part && approval::asks_start(&profile.config) {
        approval::ask_start(tx, run.id, Asking::plain(said.env.id()))?;
    }
    Ok(Accepted {
        task: task.id,
        run: run.id,
        input: input.id,
        session: session.id,
        outcome: DeliveryOutcome::Queued,
        deduped: false,
    })
}

/// Sets how much a task may spend, if the command says so.
pub(crate) fn set_budget(
    tx: &mut Tx<'_>,
    task: &TaskRow,
    command: &AgentCommand,
) -> Result<(), EngineError> {
    let Some(cap) = command.budget else { return Ok(()) };
    let row = budget::BudgetRow {
        namespace: task.namespace.clone(),
        scope: format!("task:{}", task.id),
        cap_micros: cap.micros(),
        spent_micros: 0,
        reserved_micros: 0,
        currency: cap.currency.as_str().to_owned(),
        period: None,
        period_start: None,
    };
    budget::set(tx, &row)?;
    Ok(())
}

/// What is kept of a command: its message has a row of its own.
fn stored(command: &AgentCommand) -> AgentCommand {
    AgentCommand { message: Vec::new(), attachments: Vec::new(), ..command.clone() }
}

/// The task with the id, for whoever may see it.
pub(crate) fn find_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: TaskId,
) -> Result<TaskRow, EngineError> {
    task::find(tx, namespace.as_str(), id)?.ok_or_else(|| EngineError::not_found("task", id))
}
