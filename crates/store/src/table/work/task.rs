//! Tasks: what was asked.

use provost_core::{RunId, TaskId, Timestamp};

use super::session;
use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// One task.
    TaskRow in "task" {
        /// The id.
        id: TaskId,
        /// The tenancy boundary.
        namespace: String,
        /// The agent that was asked.
        agent: String,
        /// Its revision at that time.
        agent_revision: u64,
        /// The session it belongs to.
        session_id: String,
        /// The task that asked for it.
        parent_task_id: Option<TaskId>,
        /// Where it stands.
        state: String,
        /// How inputs are queued.
        queue_mode: String,
        /// One step counts like a minute of waiting.
        priority: i64,
        /// What was asked, as JSON.
        command: String,
        /// A name for people.
        label: Option<String>,
        /// Who asked: a schedule, a run, a channel.
        spawned_by: Option<String>,
        /// The newest run.
        current_run_id: Option<RunId>,
        /// How many runs it had.
        run_count: u64,
        /// The number of the next input.
        next_input: u64,
        /// Why it was dropped.
        drop_reason: Option<String>,
        /// What it waits for.
        waiting_for: Option<String>,
        /// When it goes on by itself.
        wake_at: Option<Timestamp>,
        /// It must have ended by then.
        deadline: Option<Timestamp>,
        /// What all its runs cost.
        cost_micros: i64,
        /// Rises with each change.
        version: u64,
        /// When it was asked.
        created: Timestamp,
        /// When it last changed.
        updated: Timestamp,
        /// When it ended.
        ended: Option<Timestamp>,
        /// When it was put away.
        archived: Option<Timestamp>,
    }
}

/// Which tasks to list.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// In this state only.
    pub state: Option<String>,
    /// Of this agent only.
    pub agent: Option<String>,
    /// Of this session only.
    pub session_id: Option<String>,
    /// With this name for people only.
    pub label: Option<String>,
    /// Asked for by this task only.
    pub parent: Option<TaskId>,
    /// Also those that were put away.
    pub archived: bool,
    /// Older than this one: the last of the page before.
    pub before: Option<TaskId>,
}

/// The task with the id.
pub fn get(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<TaskRow>, StoreError> {
    tx.optional(&TaskRow::select("WHERE id = ?1"), params![id])
}

/// The task with the id, locked after its session.
pub fn lock(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<Locked<TaskRow>>, StoreError> {
    let sql = "SELECT namespace, session_id FROM task WHERE id = ?1";
    let Some((namespace, session)) = tx.optional::<(String, String)>(sql, params![id])? else {
        return Ok(None);
    };
    session::lock_key(tx, &namespace, &session);
    tx.lock(&TaskRow::select("WHERE id = ?1"), params![id])
}

/// The task with the id, locked after its session, if it belongs to the namespace.
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

/// Fails if a task is not locked and transactions are checked.
pub(crate) fn require_lock(tx: &Tx<'_>, id: TaskId, change: &str) -> Result<(), StoreError> {
    tx.require_lock("task", params![id], change)
}

/// Takes the number of the next input of a task; nothing if there is no such task.
pub fn take_input_number(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE task SET next_input = next_input + 1 WHERE id = ?1 RETURNING next_input - 1";
    tx.optional_fenced(sql, params![id])
}

/// The task with the id, if it belongs to the namespace.
pub fn find(tx: &mut Tx<'_>, namespace: &str, id: TaskId) -> Result<Option<TaskRow>, StoreError> {
    tx.optional(&TaskRow::select("WHERE id = ?2 AND namespace = ?1"), params![namespace, id])
}

/// Tasks of a namespace, newest first.
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

/// The newest task of a session.
pub fn newest_of_session(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<TaskRow>, StoreError> {
    let sql = TaskRow::select("WHERE namespace = ?1 AND session_id = ?2 ORDER BY id DESC LIMIT 1");
    tx.optional(&sql, params![namespace, session_id])
}

/// The newest task of a session that nobody spawned; of the given agent, if one is given.
pub fn newest_asked(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    agent: Option<&str>,
) -> Result<Option<TaskRow>, StoreError> {
    let sql = TaskRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND parent_task_id IS NULL AND (?3 IS NULL OR agent = ?3)
         ORDER BY id DESC LIMIT 1",
    );
    tx.optional(&sql, params![namespace, session_id, agent])
}
