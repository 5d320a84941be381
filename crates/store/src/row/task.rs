//! Tasks: what was asked.

use std::cmp::Reverse;

use provost_core::{RunId, TaskId, Timestamp};

use super::filter::Filter;
use super::kin;
use crate::{StoreError, Tx, params};

table! {
    /// One task.
    TaskRow in "task" saying "kin" by is_kin {
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

impl TaskFilter {
    /// What it asks for, but for the session.
    fn terms<'a>(&'a self, namespace: &'a str) -> Filter<'a> {
        let Self { state, agent, session_id: _, label, parent, archived, before } = self;
        Filter::of(namespace)
            .maybe("state = {}", state)
            .maybe("agent = {}", agent)
            .maybe("label = {}", label)
            .maybe("parent_task_id = {}", parent)
            .only(!archived, "archived IS NULL")
            .maybe("id < {}", before)
    }
}

/// The task with the id.
pub fn get(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<TaskRow>, StoreError> {
    tx.optional(&TaskRow::select("WHERE id = ?1"), params![id])
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
    let Some(session) = &filter.session_id else {
        return filter.terms(namespace).rows(tx, TaskRow::select, "id DESC", limit);
    };
    // The one that has begun the session is found by the digits of its id, the others by the index.
    let others = filter.terms(namespace).with("session_id = {}", session).only(true, "kin = 0");
    let mut rows: Vec<TaskRow> = others.rows(tx, TaskRow::select, "id DESC", limit)?;
    let first = "id = 'task_' || substr({}, 5) AND session_id = {} AND kin = 1";
    let first = filter.terms(namespace).with(first, session).rows(tx, TaskRow::select, "id", 1)?;
    rows.extend(first);
    rows.sort_unstable_by_key(|row| Reverse(row.id));
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(rows)
}

/// Takes the next input number; nothing if there is no such task.
pub fn take_input_seq(tx: &mut Tx<'_>, id: TaskId) -> Result<Option<u64>, StoreError> {
    tx.optional(
        "UPDATE task SET next_input = next_input + 1 WHERE id = ?1 RETURNING next_input - 1",
        params![id],
    )
}

/// The newest task of a session.
pub fn newest_of_session(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<TaskRow>, StoreError> {
    let sql = TaskRow::select(&format!("WHERE id = {}", kin::newest_task("true")));
    tx.optional(&sql, params![namespace, session_id])
}

/// The newest task of a session that nobody spawned; of the given agent, if one is given.
pub fn newest_asked(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    agent: Option<&str>,
) -> Result<Option<TaskRow>, StoreError> {
    let asked = "a.parent_task_id IS NULL AND (?3 IS NULL OR a.agent = ?3)";
    let sql = TaskRow::select(&format!("WHERE id = {}", kin::newest_task(asked)));
    tx.optional(&sql, params![namespace, session_id, agent])
}
