//! Runs of a namespace, of a task, and of a parent.

use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::{RunId, TaskId};

use super::RunRow;
use crate::table::work::task;
use crate::transaction::filter::Filter;
use crate::{FromRow, Locked, Row, StoreError, Tx, params};

/// Criteria for listing runs; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// The task.
    pub task_id: Option<TaskId>,
    /// The session.
    pub session_id: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The status.
    pub status: Option<RunStatus>,
    /// The phase.
    pub phase: Option<RunPhase>,
    /// The parent run.
    pub parent: Option<RunId>,
    /// Runs older than this one: the last run of the previous page.
    pub before: Option<RunId>,
}

/// Returns runs of a namespace, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    filter: &RunFilter,
    limit: u64,
) -> Result<Vec<RunRow>, StoreError> {
    let RunFilter { task_id, session_id, agent, status, phase, parent, before } = filter;
    Filter::of(namespace)
        .maybe("task_id = {}", task_id)
        .maybe("session_id = {}", session_id)
        .maybe("agent = {}", agent)
        .maybe("status = {}", status)
        .maybe("phase = {}", phase)
        .maybe("parent_run_id = {}", parent)
        .maybe("id < {}", before)
        .rows(tx, RunRow::select, "id DESC", limit)
}

/// Returns the runs of a task, in order.
pub fn of_task(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Vec<RunRow>, StoreError> {
    tx.fetch_all(&RunRow::select("WHERE task_id = ?1 ORDER BY ordinal"), params![task_id])
}

/// Returns the newest run of a task. `None` if there is none.
pub fn last_of_task(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select("WHERE task_id = ?1 ORDER BY ordinal DESC LIMIT 1");
    tx.fetch_optional(&sql, params![task_id])
}

/// Returns the children of a run, oldest first.
pub fn children(tx: &mut Tx<'_>, parent: RunId) -> Result<Vec<RunRow>, StoreError> {
    tx.fetch_all(&RunRow::select("WHERE parent_run_id = ?1 ORDER BY id"), params![parent])
}

/// The columns of a child that its parent needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRunRow {
    /// The run.
    pub id: RunId,
    /// Status, for users.
    pub status: RunStatus,
    /// Explanation of the status.
    pub detail: Option<String>,
    /// Output of the run, as JSON.
    pub result: Option<String>,
    /// Options with which the parent spawned the run, as JSON.
    pub spawn: Option<String>,
}

impl From<RunRow> for ChildRunRow {
    fn from(run: RunRow) -> Self {
        let RunRow { id, status, detail, result, spawn, .. } = run;
        Self { id, status, detail, result, spawn }
    }
}

impl FromRow for ChildRunRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.take()?,
            status: row.take()?,
            detail: row.take()?,
            result: row.take()?,
            spawn: row.take()?,
        })
    }
}

/// Returns the child with this id. `None` if `parent` did not spawn it.
pub fn child(tx: &mut Tx<'_>, parent: RunId, id: RunId) -> Result<Option<ChildRunRow>, StoreError> {
    let sql =
        "SELECT id, status, detail, result, spawn FROM run WHERE id = ?1 AND parent_run_id = ?2";
    tx.fetch_optional(sql, params![id, parent])
}

/// Returns the number of children of one step that have not ended.
pub fn live_of_step(tx: &mut Tx<'_>, parent: RunId, step: u64) -> Result<u64, StoreError> {
    tx.fetch_one(
        "SELECT count(*) FROM run WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase <> 'done'",
        params![parent, step],
    )
}

/// Returns the children of a run that have not ended.
pub fn live_children(tx: &mut Tx<'_>, parent: RunId) -> Result<Vec<RunRow>, StoreError> {
    let sql = "WHERE parent_run_id = ?1 AND phase <> 'done' ORDER BY rank, id";
    tx.fetch_all(&RunRow::select(sql), params![parent])
}

/// Returns true if the run exists and has not ended.
pub fn is_live(tx: &mut Tx<'_>, id: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run WHERE id = ?1 AND phase <> 'done'", params![id])
}

/// Returns true if the run exists.
pub fn is_known(tx: &mut Tx<'_>, id: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run WHERE id = ?1", params![id])
}

/// Returns the spawn options of all children that have not ended and whose parents are runs of tasks of a session.
pub fn spawn_options_of_active_children(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Vec<Option<String>>, StoreError> {
    tx.fetch_all(
        "SELECT c.spawn FROM task t JOIN run p ON p.task_id = t.id JOIN run c ON c.parent_run_id = p.id
          WHERE t.namespace = ?1 AND t.session_id = ?2 AND c.phase <> 'done'",
        params![namespace, session_id],
    )
}

/// Selects the runs of a task that have not ended: first those that have started, then by rank.
const LIVE_OF_TASK: &str = "WHERE task_id = ?1 AND phase <> 'done' \
                            ORDER BY CASE WHEN attempt_no > 0 THEN 0 ELSE 1 END, rank, ordinal";

/// Returns the runs of a task that have not ended: first those that have started, then by rank.
pub fn live_of_task(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Vec<RunRow>, StoreError> {
    tx.fetch_all(&RunRow::select(LIVE_OF_TASK), params![task_id])
}

/// Returns the runs of a task that have not ended, locked, in the order of [`live_of_task`]. The caller must have
/// locked the task.
pub fn lock_live_of_task(
    tx: &mut Tx<'_>,
    task_id: TaskId,
) -> Result<Vec<Locked<RunRow>>, StoreError> {
    task::require_lock(tx, task_id, "runs of the task")?;
    let sql = RunRow::select(LIVE_OF_TASK);
    tx.lock_all(&sql, params![task_id])
}
