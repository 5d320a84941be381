//! Runs below runs.
//!
//! A child is made in the transaction that commits the call that asked for it, under ids that follow from that call, so
//! there is never a twin. When it ends, its parent learns of it once, in the transaction of that end: as the result of the
//! call that waits for it, or as a message. What a child says is evidence for its parent, not an instruction.

pub(crate) mod join;
mod report;
mod spawn;
mod spawner;
mod subagent;
pub(crate) mod team;
mod wait;

use std::sync::Arc;

use provost_agent::subagent::{AgentPathSegment, ChildLifetime};
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::{Env, TaskId};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{run_join, task};
use provost_store::{Store, Tx};
use provost_tool::Tool;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(crate) use self::wait::wait_for_team;
pub(crate) use crate::child::spawner::EngineChildren;
pub(crate) use crate::child::subagent::Birth;
use crate::child::subagent::release_next;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::input;
use crate::journal::RunJournal;
use crate::run::cancel;
use crate::run::lifecycle::{outcome, word};
use crate::worker::lease::Lease;

/// How many runs may be below others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// Children of children: 1 lets only runs that nobody spawned have children.
    pub depth: u64,
    /// Tasks of one session that it has started with `spawn_task` and that have not ended.
    pub active: u64,
}

impl Default for ChildLimits {
    fn default() -> Self {
        Self { depth: 1, active: 5 }
    }
}

/// The tools by which an agent starts other runs (`spawn_task`) and waits for them (`await_tasks`). They work in runs of this
/// engine only; give them to the agents that may have children.
pub fn child_tools() -> Result<Vec<Arc<dyn Tool>>, EngineError> {
    let unusable = |error: provost_tool::SpecError| EngineError::bug(error.to_string());
    Ok(vec![Arc::new(spawn::tool().map_err(unusable)?), Arc::new(wait::tool().map_err(unusable)?)])
}

/// What these tools need of the run that calls them.
pub(crate) struct Family {
    store: Store,
    lease: Arc<Lease>,
    journal: Arc<RunJournal>,
    limits: ChildLimits,
    env: Env,
}

impl Family {
    pub(crate) fn new(shared: &EngineInner, lease: &Arc<Lease>, journal: &Arc<RunJournal>) -> Self {
        Self {
            store: shared.store.clone(),
            lease: Arc::clone(lease),
            journal: Arc::clone(journal),
            limits: shared.options.children,
            env: shared.env.clone(),
        }
    }
}

/// What a parent wants of a child, kept with it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Terms {
    notify: Notify,
    #[serde(skip_serializing_if = "Cleanup::is_keep")]
    cleanup: Cleanup,
    /// Where its definition is, if its parent's names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    birth: Option<Birth>,
}

impl Terms {
    fn of(run: &RunRow) -> Result<Self, EngineError> {
        Self::read(run.spawn.as_deref())
    }

    fn read(kept: Option<&str>) -> Result<Self, EngineError> {
        Ok(match kept {
            Some(terms) => serde_json::from_str(terms)?,
            None => Self::default(),
        })
    }
}

/// What counts of [`Terms`] when a child ends. Each end reads it in its transaction, so the way to its definition is left as it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Ties<'a> {
    notify: Notify,
    cleanup: Cleanup,
    #[serde(borrow)]
    birth: Option<BirthTies<'a>>,
}

#[derive(Deserialize)]
struct BirthTies<'a> {
    #[serde(default)]
    queues: bool,
    #[serde(borrow)]
    place: &'a RawValue,
}

impl<'a> Ties<'a> {
    fn of(run: &'a RunRow) -> Result<Self, EngineError> {
        Ok(match &run.spawn {
            Some(terms) => serde_json::from_str(terms)?,
            None => Self::default(),
        })
    }

    /// The last step of the way to its definition, if it may be that to a member of a team.
    fn member(&self) -> Result<Option<AgentPathSegment>, EngineError> {
        let place = self.birth.as_ref().map(|birth| birth.place.get());
        let Some(place) = place.filter(|place| place.contains("member")) else { return Ok(None) };
        Ok(serde_json::from_str::<Vec<AgentPathSegment>>(place)?.pop())
    }
}

/// Whether a parent that does not wait for a child is told that it ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
enum Notify {
    /// It gets a message.
    #[default]
    Done,
    /// The result is kept, for whoever asks.
    Silent,
}

/// What becomes of a child that has ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
enum Cleanup {
    /// Nothing.
    #[default]
    Keep,
    /// It is put away.
    Delete,
}

impl Cleanup {
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// What is kept with a run that goes on as the same agent as a child, without being waited for; nothing, if that was none.
pub(crate) fn born_like(run: &RunRow) -> Result<Option<String>, EngineError> {
    let Some(mut birth) = Terms::of(run)?.birth else { return Ok(None) };
    birth.queues = false;
    let terms = Terms { notify: Notify::Silent, cleanup: Cleanup::Keep, birth: Some(birth) };
    Ok(Some(serde_json::to_string(&terms)?))
}

/// A run that did not end well takes its children with it; one that did leaves them to finish.
pub(crate) fn cancel_children(tx: &mut Tx<'_>, parent: &RunRow) -> Result<(), EngineError> {
    // A run that ends its children does not wait for them: their ends must not wake it.
    run_join::remove_of_run(tx, parent.id)?;
    let ended_well = word::<RunStatus>(&parent.status)? == RunStatus::Ok;
    for child in run::live_children(tx, parent.id)? {
        let life = Terms::of(&child)?.birth.map(|birth| birth.life);
        let goes = match life {
            Some(ChildLifetime::Detached) => false,
            Some(ChildLifetime::Call | ChildLifetime::Run) => true,
            None => !ended_well,
        };
        if goes && let Some(child) = run::lock(tx, child.id)? {
            cancel::cancel(tx, child, OutcomeCode::CancelledByParent)?;
        }
    }
    Ok(())
}

/// The call that a run is in the middle of is given up: what it started and would have waited for goes with it.
pub(crate) fn cancel_children_of_calls(
    tx: &mut Tx<'_>,
    parent: &RunRow,
) -> Result<(), EngineError> {
    for child in run::live_children(tx, parent.id)? {
        let life = Terms::of(&child)?.birth.map(|birth| birth.life);
        if life == Some(ChildLifetime::Call)
            && let Some(child) = run::lock(tx, child.id)?
        {
            cancel::cancel(tx, child, OutcomeCode::CancelledByParent)?;
        }
    }
    Ok(())
}

/// Everything below the runs of a task goes, also what outlives the run that started it.
pub(crate) fn cancel_below(tx: &mut Tx<'_>, task: TaskId) -> Result<(), EngineError> {
    for parent in run::of_task(tx, task)? {
        for child in run::children(tx, parent.id)? {
            let below = child.task_id;
            // Also what waits in the child's task and the runs that began with it, which have no parent of their own.
            task::lock(tx, below)?;
            input::withdraw_all(tx, below)?;
            for run in run::lock_live_of_task(tx, below)? {
                cancel::cancel(tx, run, OutcomeCode::CancelledByParent)?;
            }
            cancel_below(tx, below)?;
        }
    }
    Ok(())
}

/// The parent of a run that ended is told: by the call that waits for it, or by a message, or not at all.
pub(crate) fn parent_learns(tx: &mut Tx<'_>, child: &RunRow) -> Result<(), EngineError> {
    let Some(parent_id) = child.parent_run_id else { return Ok(()) };
    let ties = Ties::of(child)?;
    let queues = ties.birth.as_ref().is_some_and(|birth| birth.queues);
    if queues {
        release_next(tx, child)?;
    }
    team::member_ended(tx, child, ties.member()?.as_ref())?;
    if ties.cleanup == Cleanup::Delete
        && let Some(mut task) = task::lock(tx, child.task_id)?
    {
        task.archived.get_or_insert(tx.now());
        task.save(tx)?;
    }
    if join::run_ended(tx, child.id)? {
        return Ok(());
    }
    // A parent that ended its children knows that they have ended.
    let by_parent = outcome(child)? == Some(OutcomeCode::CancelledByParent);
    if by_parent || ties.notify == Notify::Silent {
        return Ok(());
    }
    let Some(parent) = run::get(tx, parent_id)? else { return Ok(()) };
    report::announce(tx, &parent, child)
}
