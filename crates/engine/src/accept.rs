//! Taking work in: once, whatever the caller repeats.
//!
//! Invariant: everything that can refuse a command is asked before the first row is written, so a refusal leaves nothing
//! behind, and a refusal by policy can be remembered.

mod draft;
mod grounds;
mod intake;
mod memory;
mod run;
mod session;

use std::sync::Arc;

use provost_core::work::{
    AgentCommand, DeliveryOutcome, ExecPolicy, InputState, Namespace, TaskState, WorkError,
};
use provost_core::{Env, InputId, RunId, TaskId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::row::budget;
use provost_store::row::input::InputRow;
use provost_store::row::run::{self as run_row, RunRow};
use provost_store::row::session::SessionRow;
use provost_store::row::task::{self, TaskRow};
use serde::{Deserialize, Serialize};

pub(crate) use self::draft::Draft;
pub(crate) use self::grounds::{Grounds, KnownAgents};
use self::intake::FirstPlace;
pub(crate) use self::intake::Intake;
pub(crate) use self::memory::Memory;
pub(crate) use self::run::{Made, NewRun, create_run, free_rank};
use crate::agent::AgentProfile;
use crate::approval::{self, Asking};
use crate::claim::Claimed;
use crate::error::EngineError;
use crate::input::{self, Said, Written};
use crate::load::Loaded;
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
    let draft = Draft::new(namespace, command.clone(), env)?;
    decide(tx, namespace, &draft, (env, Aids::default()))?.map_err(EngineError::Work)
}

/// What makes accepting quick, if it is there.
#[derive(Default, Clone, Copy)]
pub(crate) struct Aids<'a> {
    /// Agents that were asked before.
    pub(crate) agents: Option<&'a KnownAgents>,
    /// Where a run can begin at once.
    pub(crate) intake: Option<&'a Arc<Intake>>,
}

/// Accepts or refuses a command that was checked. A refusal that counts for every repeat is stored and given as a value; what may pass is
/// an error, which leaves nothing behind.
pub(crate) fn decide(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    draft: &Draft,
    (env, aids): (&Env, Aids<'_>),
) -> Result<Result<Accepted, WorkError>, EngineError> {
    let Draft { command, memory, .. } = draft;
    if let Some(answered) = memory.recall::<Accepted>(tx)? {
        let again =
            |accepted| Accepted { outcome: DeliveryOutcome::Duplicate, deduped: true, ..accepted };
        return Ok(answered.map(again));
    }
    check_run_id(tx, command)?;
    let key = memory.input_key();
    let Aids { agents, intake } = aids;
    let said = Said { agents, intake, draft: Some(draft), ..Said::new(command, &key, env) };
    let accepted = match take_in(tx, namespace, (&said, draft)) {
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
    (said, draft): (&Said<'_>, &Draft),
) -> Result<Accepted, EngineError> {
    let session = session::named(tx, namespace, said.command)?;
    match continued_task(tx, namespace, said.command, session.as_ref())? {
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
            let (task, run) = (draft.task, draft.run);
            create_in(tx, namespace, said, &NewTask { task, run, parent: None }, session)
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
    session: Option<&SessionRow>,
) -> Result<Option<TaskRow>, EngineError> {
    let Some(session) = session else { return Ok(None) };
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
    /// What it wants of it, as JSON.
    pub(crate) spawn: String,
    /// Its place among those of one call, if its agent is part of the one above it, and not one of its own.
    pub(crate) place: Option<Place>,
}

/// Where a child stands among those that one call asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// They begin in this order.
    pub(crate) index: u32,
    /// True if another one has to end before it may begin.
    pub(crate) held: bool,
}

/// Makes a task with its first run.
pub(crate) fn create_task(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    said: &Said<'_>,
    new: &NewTask,
) -> Result<Accepted, EngineError> {
    let session = session::named(tx, namespace, said.command)?;
    create_in(tx, namespace, said, new, session)
}

/// Makes a task in the session that its command names, if there is one.
fn create_in(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    said: &Said<'_>,
    new: &NewTask,
    session: Option<SessionRow>,
) -> Result<Accepted, EngineError> {
    let (command, parent) = (said.command, new.parent.as_ref());
    let agent = command.agent.as_deref().or(session.as_ref().and_then(|row| row.agent.as_deref()));
    let plain = parent.is_none() && command.policy.is_none() && command.lane.is_none();
    if let Some(agents) = said.agents.filter(|_| plain) {
        let known = agents.get(tx, namespace, agent)?;
        let made = create_on(tx, namespace, said, new, (&known.profile, &known.grounds, session))?;
        return Ok(made.0);
    }
    let profile = agent::resolve(tx, namespace, agent)?;
    let policy = profile.policy(&[command.policy.as_ref()], parent.map(|parent| &parent.policy))?;
    let grounds = Grounds::new(tx, namespace, &profile, command.lane.as_deref(), &policy)?;
    Ok(create_on(tx, namespace, said, new, (&profile, &grounds, session))?.0)
}

/// Makes a task of an agent whose profile is known, in a session of its own if it is given none.
pub(crate) fn create_on(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    said: &Said<'_>,
    new: &NewTask,
    (profile, grounds, session): (&AgentProfile, &Grounds, Option<SessionRow>),
) -> Result<(Accepted, RunRow), EngineError> {
    let (now, command, parent) = (tx.now(), said.command, new.parent.as_ref());
    let begun = (command, new.task);
    let (session, alone) = session::open(tx, namespace, begun, session, &profile.name)?;
    let mut task = accepted_task(tx, namespace, said, new, (profile, session))?;
    set_budget(tx, &task, command)?;
    let place = parent.and_then(|parent| parent.place);
    let asks_start = place.is_none() && approval::asks_start(&profile.config);
    let first_place = match said.intake {
        Some(intake) if alone && parent.is_none() && !asks_start && command.delay().is_zero() => {
            intake.place(tx, grounds)?
        }
        _ => None,
    };
    let drafted;
    let written = match said.draft {
        Some(draft) => &draft.written,
        None => {
            drafted = Written::first(command, said.env, new.task)?;
            &drafted
        }
    };
    let begins = first_place.is_some();
    let input = first_input(tx, &mut task, said, (written, new.run, begins))?;
    let start = NewRun {
        id: new.run,
        grounds,
        not_before: match place {
            Some(Place { held: true, .. }) => queue::HELD,
            _ => now.after(command.delay()),
        },
        parent,
        spawn: parent.map(|parent| parent.spawn.clone()),
        timeout: command.timeout(),
        queue_timeout: command.queue_timeout(),
        rank: place
            .map(|place| queue::rank(now, task.priority).saturating_add(i64::from(place.index))),
        first: true,
        alone,
        claimer: first_place.as_ref().map(FirstPlace::claimer),
    };
    let Made { run, lease } = create_run(tx, &mut task, &start, std::slice::from_ref(&input))?;
    if let (Some(first_place), Some(lease)) = (first_place, lease) {
        let fresh = Loaded::new(tx, &run, (&input, written.message(command)), command, said.env)?;
        first_place.begin(tx, Claimed { lease, fresh: Some(fresh) });
    }
    if !alone {
        queue::refresh(tx, &run.namespace, &run.session_id)?;
    }
    if asks_start {
        approval::ask_start(tx, run.id, Asking::plain(said.env.id()))?;
    }
    let accepted = Accepted {
        task: task.id,
        run: run.id,
        input: input.id,
        session: task.session_id,
        outcome: DeliveryOutcome::Queued,
        deduped: false,
    };
    Ok((accepted, run))
}

/// Stores what a run begins with; it has it already if it begins at once.
fn first_input(
    tx: &mut Tx<'_>,
    task: &mut TaskRow,
    said: &Said<'_>,
    (written, run, begins): (&Written, RunId, bool),
) -> Result<InputRow, EngineError> {
    let mode = said.command.queue_mode.unwrap_or_default();
    let place = input::Place { mode, outcome: DeliveryOutcome::Queued, run: Some(run) };
    let state = if begins { InputState::Claimed } else { InputState::Pending };
    input::insert_as(tx, task, (said, written), place, state)
}

/// The row of a task that was just taken in.
fn accepted_task(
    tx: &Tx<'_>,
    namespace: &Namespace,
    said: &Said<'_>,
    new: &NewTask,
    (profile, session): (&AgentProfile, String),
) -> Result<TaskRow, EngineError> {
    let (now, command) = (tx.now(), said.command);
    let kept = match said.draft {
        Some(draft) => draft.kept.clone(),
        None => serde_json::to_string(&stored(command))?,
    };
    let delayed = !command.delay().is_zero();
    Ok(TaskRow {
        id: new.task,
        namespace: namespace.to_string(),
        agent: profile.name.clone(),
        agent_revision: profile.revision,
        session_id: session,
        parent_task_id: new.parent.as_ref().map(|parent| parent.task),
        state: TaskState::accepted(delayed).as_str().to_owned(),
        queue_mode: command.queue_mode.unwrap_or_default().as_str().to_owned(),
        priority: i64::from(command.priority),
        command: kept,
        label: command.label.clone(),
        spawned_by: command.spawned_by.clone(),
        current_run_id: Some(new.run),
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
