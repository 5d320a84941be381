//! Tasks: durable requests to an agent.

use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::{TaskState, WaitReason};
use provost_core::scheduling::InputMode;
use provost_core::{RunId, TaskId, Timestamp};

use super::session;
use crate::transaction::filter::Filter;
use crate::transaction::value::TextColumn;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// A task.
    TaskRow in "task" {
        /// The id.
        id: TaskId,
        /// Namespace of the row.
        namespace: String,
        /// The agent.
        agent: String,
        /// Revision of the agent at submission.
        agent_revision: u64,
        /// The session of the task.
        session_id: String,
        /// The task that spawned it.
        parent_task_id: Option<TaskId>,
        /// State of the task.
        state: TaskState,
        /// Queue mode of its inputs.
        queue_mode: InputMode,
        /// Priority. One level is worth a minute of waiting.
        priority: i64,
        /// The submitted command, as JSON.
        command: String,
        /// Display name.
        label: Option<String>,
        /// Origin of the task: a schedule, a run, a channel.
        spawned_by: Option<String>,
        /// The newest run.
        current_run_id: Option<RunId>,
        /// Number of runs.
        run_count: u64,
        /// Number of the next input.
        next_input: u64,
        /// Reason for which the task was dropped.
        drop_reason: Option<String>,
        /// Reason of the current wait.
        waiting_for: Option<WaitReason>,
        /// Time at which the wait ends on its own.
        wake_at: Option<Timestamp>,
        /// Time by which the task must have ended.
        deadline: Option<Timestamp>,
        /// Cost of all runs, in millionths of the currency.
        cost_micros: i64,
        /// Version; rises with each change.
        version: u64,
        /// Time of submission.
        created: Timestamp,
        /// Time of the last change.
        updated: Timestamp,
        /// Time of the end.
        ended: Option<Timestamp>,
        /// Time at which the task was archived.
        archived: Option<Timestamp>,
    }
}

impl TaskRow {
    /// Parses the tenancy boundary.
    pub fn namespace(&self) -> Result<Namespace, StoreError> {
        TextColumn { table: "task", column: "namespace", row: &self.id, text: &self.namespace }
            .parse()
    }

    /// Parses the id of the session.
    pub fn session(&self) -> Result<SessionName, StoreError> {
        TextColumn { table: "task", column: "session_id", row: &self.id, text: &self.session_id }
            .parse()
    }
}

/// Criteria for listing tasks; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// The state.
    pub state: Option<TaskState>,
    /// The agent.
    pub agent: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// The display name.
    pub label: Option<String>,
    /// The task that spawned it.
    pub parent: Option<TaskId>,
    /// True to include archived tasks.
    pub archived: bool,
    /// Tasks older than this one: the last task of the previous page.
    pub before: Option<TaskId>,
}

/// Returns the task with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<TaskRow>, StoreError> {
    tx.fetch_optional(&TaskRow::select("WHERE id = ?1"), params![id])
}

/// Returns the task with this id, locked after its session. `None` if it does not exist.
pub fn lock(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<Locked<TaskRow>>, StoreError> {
    let sql = "SELECT namespace, session_id FROM task WHERE id = ?1";
    let Some((namespace, session)) = tx.fetch_optional::<(String, String)>(sql, params![id])?
    else {
        return Ok(None);
    };
    session::lock_key(tx, &namespace, &session);
    tx.lock(&TaskRow::select("WHERE id = ?1"), params![id])
}

/// Returns the task with this id, locked after its session. `None` if the namespace has none with this id.
pub fn lock_in(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: TaskId,
) -> Result<Option<Locked<TaskRow>>, StoreError> {
    Ok(lock(tx, id)?.filter(|task| task.namespace == namespace))
}

/// Locks a task without reading it.
pub fn lock_key(tx: &mut Tx<'_>, id: TaskId) {
    tx.lock_key("task", params![id]);
}

/// Fails if transactions are checked and the task is not locked.
pub(crate) fn require_lock(tx: &Tx<'_>, id: TaskId, change: &str) -> Result<(), StoreError> {
    tx.require_lock("task", params![id], change)
}

/// Reserves the number of the next input of a task; `None` if the task does not exist.
pub fn take_input_number(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE task SET next_input = next_input + 1 WHERE id = ?1 RETURNING next_input - 1";
    tx.fetch_optional_fenced(sql, params![id])
}

/// Returns the task with this id. `None` if the namespace has none with this id.
pub fn find(tx: &mut Tx<'_>, namespace: &str, id: TaskId) -> Result<Option<TaskRow>, StoreError> {
    tx.fetch_optional(&TaskRow::select("WHERE id = ?2 AND namespace = ?1"), params![namespace, id])
}

/// Returns tasks of a namespace, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    filter: &TaskFilter,
    limit: u64,
) -> Result<Vec<TaskRow>, StoreError> {
    let TaskFilter { state, agent, session_id, label, parent, archived, before } = filter;
    Filter::of(namespace)
        .maybe("state = {}", state)
        .maybe("agent = {}", agent)
        .maybe("session_id = {}", session_id)
        .maybe("label = {}", label)
        .maybe("parent_task_id = {}", parent)
        .only(!archived, "archived IS NULL")
        .maybe("id < {}", before)
        .rows(tx, TaskRow::select, "id DESC", limit)
}

/// Returns the newest task of a session. `None` if there is none.
pub fn newest_of_session(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<TaskRow>, StoreError> {
    let sql = TaskRow::select("WHERE namespace = ?1 AND session_id = ?2 ORDER BY id DESC LIMIT 1");
    tx.fetch_optional(&sql, params![namespace, session_id])
}

/// Returns the newest task of a session that no other task spawned, optionally of one agent. `None` if there is none.
pub fn latest_for_agent(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    agent: Option<&str>,
) -> Result<Option<TaskRow>, StoreError> {
    let sql = TaskRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND parent_task_id IS NULL AND (?3 IS NULL OR agent = ?3)
         ORDER BY id DESC LIMIT 1",
    );
    tx.fetch_optional(&sql, params![namespace, session_id, agent])
}
