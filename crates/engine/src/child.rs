//! Child runs.
//!
//! The transaction that commits a tool call creates the children of the call. Their ids follow from the call, so a
//! repeated transaction creates no second child. The end of a child reaches its parent once, in the transaction that
//! ends the child: as the result of the call that waits for it, or as a message. The parent's model is told to treat
//! the output of a child as evidence, not as an instruction.

pub(crate) mod join;
mod report;
mod request;
mod spawn;
mod spawner;
mod subagent;
pub(crate) mod team;
mod wait;

use std::sync::Arc;

use provost_agent::subagent::ChildLifetime;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::{Env, TaskId};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{run_join, task};
use provost_store::{Store, Tx};
use provost_tool::Tool;
use serde::{Deserialize, Serialize};

pub(crate) use self::wait::wait_for_team;
pub(crate) use crate::child::spawner::DurableChildSpawner;
pub(crate) use crate::child::subagent::ChildOrigin;
use crate::child::subagent::start_next_deferred_child;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::input;
use crate::journal::RunJournal;
use crate::run::cancel;
use crate::worker::lease::Lease;

/// Limits on child runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildLimits {
    /// Maximum depth of child runs. 1 allows children only to runs without a parent.
    pub depth: u64,
    /// Maximum number of tasks that one session has started with `spawn_task` and that have not ended.
    pub active: u64,
}

impl Default for ChildLimits {
    fn default() -> Self {
        Self { depth: 1, active: 5 }
    }
}

/// Returns the tools `spawn_task` and `await_tasks`, which start other runs and wait for them. They work only in runs
/// of this engine. Give them to agents that may have children.
pub fn child_tools() -> Result<Vec<Arc<dyn Tool>>, EngineError> {
    let unusable = |error: provost_tool::ToolSpecError| EngineError::bug(error.to_string());
    Ok(vec![Arc::new(spawn::tool().map_err(unusable)?), Arc::new(wait::tool().map_err(unusable)?)])
}

/// Context of the child tools: the run that calls them and its journal.
pub(crate) struct ChildToolContext {
    store: Store,
    lease: Arc<Lease>,
    journal: Arc<RunJournal>,
    limits: ChildLimits,
    env: Env,
}

impl ChildToolContext {
    /// Creates the context of an attempt.
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

/// Settings that a parent chooses for a child. Stored in the row of the child.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct SpawnOptions {
    notify: ParentNotification,
    #[serde(skip_serializing_if = "ChildCleanup::is_keep")]
    cleanup: ChildCleanup,
    /// Origin of a child whose definition is part of its parent's agent. `None` if the child has an agent of its own.
    #[serde(rename = "birth", skip_serializing_if = "Option::is_none")]
    child_origin: Option<ChildOrigin>,
}

impl SpawnOptions {
    /// Parses the options of a run. The default for a run without a parent.
    fn of(run: &RunRow) -> Result<Self, EngineError> {
        Self::read(run.spawn.as_deref())
    }

    /// Parses stored options. The default for `None`.
    fn read(stored: Option<&str>) -> Result<Self, EngineError> {
        Ok(match stored {
            Some(terms) => serde_json::from_str(terms)?,
            None => Self::default(),
        })
    }
}

/// Whether a parent that does not wait for a child is notified of its end.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
enum ParentNotification {
    /// The parent gets a message.
    #[default]
    #[serde(rename = "done")]
    OnEnd,
    /// The parent gets no message. The result is stored for a later call.
    #[serde(rename = "silent")]
    Never,
}

/// Treatment of a child after its end.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
enum ChildCleanup {
    /// The task of the child stays listed.
    #[default]
    Keep,
    /// The task of the child is archived.
    #[serde(rename = "delete")]
    Archive,
}

impl ChildCleanup {
    /// Returns true for the default, which is not serialized.
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// Returns the spawn options of a run that continues the work of a child without a waiting parent. `None` if the given
/// run is not a subagent.
pub(crate) fn spawn_options_for_continuation(run: &RunRow) -> Result<Option<String>, EngineError> {
    let Some(mut child_origin) = SpawnOptions::of(run)?.child_origin else { return Ok(None) };
    child_origin.has_deferred_siblings = false;
    let terms = SpawnOptions {
        notify: ParentNotification::Never,
        cleanup: ChildCleanup::Keep,
        child_origin: Some(child_origin),
    };
    Ok(Some(serde_json::to_string(&terms)?))
}

/// Removes the joins of a run that ends and cancels its children. A successful run cancels only the children whose
/// lifetime is bound to it.
pub(crate) fn cancel_children(tx: &mut Tx<'_>, parent: &RunRow) -> Result<(), EngineError> {
    // The run does not wait for its children any more, so their ends must not resume it.
    run_join::remove_of_run(tx, parent.id)?;
    let succeeded = parent.status == RunStatus::Ok;
    for child in run::live_children(tx, parent.id)? {
        let life = SpawnOptions::of(&child)?.child_origin.map(|child_origin| child_origin.life);
        let ends_with_parent = match life {
            Some(ChildLifetime::Detached) => false,
            Some(ChildLifetime::Call | ChildLifetime::Run) => true,
            None => !succeeded,
        };
        if ends_with_parent && let Some(child) = run::lock(tx, child.id)? {
            cancel::cancel(tx, child, OutcomeCode::CancelledByParent)?;
        }
    }
    Ok(())
}

/// Cancels the children that live only as long as their call, because the call is abandoned.
pub(crate) fn cancel_children_of_calls(
    tx: &mut Tx<'_>,
    parent: &RunRow,
) -> Result<(), EngineError> {
    for child in run::live_children(tx, parent.id)? {
        let life = SpawnOptions::of(&child)?.child_origin.map(|child_origin| child_origin.life);
        if life == Some(ChildLifetime::Call)
            && let Some(child) = run::lock(tx, child.id)?
        {
            cancel::cancel(tx, child, OutcomeCode::CancelledByParent)?;
        }
    }
    Ok(())
}

/// Cancels all descendants of a task, including children that outlive the run that started them.
pub(crate) fn cancel_descendants(tx: &mut Tx<'_>, task: TaskId) -> Result<(), EngineError> {
    for parent in run::of_task(tx, task)? {
        for child in run::children(tx, parent.id)? {
            let child_task = child.task_id;
            // Pending inputs of the child task and runs that started with them have no parent run.
            task::lock(tx, child_task)?;
            input::withdraw_all(tx, child_task)?;
            for run in run::lock_live_of_task(tx, child_task)? {
                cancel::cancel(tx, run, OutcomeCode::CancelledByParent)?;
            }
            cancel_descendants(tx, child_task)?;
        }
    }
    Ok(())
}

/// Applies the end of a run to its parent: starts the next deferred sibling, records the end in the team, archives the
/// task if requested, and notifies the parent through the call that waits for it, or with a message. Does nothing for
/// a run without a parent.
pub(crate) fn notify_parent(tx: &mut Tx<'_>, child: &RunRow) -> Result<(), EngineError> {
    let Some(parent_id) = child.parent_run_id else { return Ok(()) };
    let options = SpawnOptions::of(child)?;
    if let Some(origin) = &options.child_origin {
        if origin.has_deferred_siblings {
            start_next_deferred_child(tx, child)?;
        }
        if let Some((lead, name)) = origin.membership() {
            team::member_ended(tx, child, lead, &name)?;
        }
    }
    if options.cleanup == ChildCleanup::Archive
        && let Some(mut task) = task::lock(tx, child.task_id)?
    {
        task.archived.get_or_insert(tx.now());
        task.save(tx)?;
    }
    if join::run_ended(tx, child.id)? {
        return Ok(());
    }
    // A parent that cancelled its children does not need to be notified of their ends.
    let by_parent = child.outcome_code == Some(OutcomeCode::CancelledByParent);
    if by_parent || options.notify == ParentNotification::Never {
        return Ok(());
    }
    let Some(parent) = run::get(tx, parent_id)? else { return Ok(()) };
    report::send_result_to_parent(tx, &parent, child)
}
