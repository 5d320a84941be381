//! Queries of data retention: find and delete old rows that no active row needs.

use provost_core::{MessageId, RunId, TaskId, Timestamp};

use crate::table::state::meta;
use crate::table::work::run_join;
use crate::table::work::session::SessionRef;
use crate::transaction::text::StoredText;
use crate::{StoreError, Tx, params};

/// Condition for a removable task. `?1` is the time before which the task must have ended.
const REMOVABLE: &str = "t.ended < ?1 AND t.state IN ('done', 'error', 'dropped', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM run r WHERE r.task_id = t.id AND r.phase <> 'done')
    AND NOT EXISTS (SELECT 1 FROM run r JOIN run c ON c.parent_run_id = r.id
                     WHERE r.task_id = t.id AND c.phase <> 'done')
    AND NOT EXISTS (SELECT 1 FROM task p WHERE p.id = t.parent_task_id AND p.ended IS NULL)
    AND NOT EXISTS (SELECT 1 FROM input i WHERE i.task_id = t.id AND i.state IN ('pending', 'claimed'))
    AND NOT EXISTS (SELECT 1 FROM run r JOIN delivery d ON d.run_id = r.id
                     WHERE r.task_id = t.id AND d.state IN ('pending', 'sending'))
    AND t.id <> coalesce((SELECT r.task_id FROM run_event e JOIN run r ON r.id = e.run_id
                           WHERE e.pos = (SELECT max(pos) FROM run_event)), '')";

/// Returns removable tasks that ended before `before`, oldest first, after the id `after`.
///
/// A task is not removable while one of its runs or their children is active, its parent task is active, it has
/// unconsumed inputs, or a delivery is in progress. The task of the last event in the log is not removable either, so
/// that the database does not assign the position of that event again.
pub fn removable_tasks(
    tx: &mut Tx<'_>,
    before: Timestamp,
    after: Option<TaskId>,
    limit: u64,
) -> Result<Vec<TaskId>, StoreError> {
    let sql = format!(
        "SELECT t.id FROM task t WHERE {REMOVABLE} AND t.id > coalesce(?2, '') ORDER BY t.id LIMIT ?3"
    );
    tx.fetch_all(&sql, params![before, after, limit])
}

/// Returns true if a task is removable and ended before `before`.
pub fn is_removable(tx: &mut Tx<'_>, id: TaskId, before: Timestamp) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM task t WHERE {REMOVABLE} AND t.id = ?2");
    tx.exists(&sql, params![before, id])
}

/// Returns true if a fork shares steps of the task's runs. The query scans all runs, because neither forks nor calls
/// are frequent.
pub fn is_forked(tx: &mut Tx<'_>, task: TaskId) -> Result<bool, StoreError> {
    tx.exists(
        "/* full scan */ SELECT 1 FROM run f JOIN run o ON o.id = f.forked_from WHERE o.task_id = ?1 LIMIT 1",
        params![task],
    )
}

/// Returns the messages that a run has added to its session, including removed ones.
pub fn session_messages(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    run: RunId,
) -> Result<Vec<MessageId>, StoreError> {
    tx.fetch_all(
        "SELECT message_id FROM session_entry
          WHERE namespace = ?1 AND session_id = ?2 AND run_id = ?3 ORDER BY entry",
        params![session.namespace, session.id, run],
    )
}

/// Replaces the stored text of a message.
pub fn rewrite_message(
    tx: &mut Tx<'_>,
    id: MessageId,
    body: &StoredText,
) -> Result<(), StoreError> {
    let (body, blob) = body.store(tx)?;
    tx.execute_fenced(
        "UPDATE message SET body = ?2, blob = ?3 WHERE id = ?1",
        params![id, body, blob],
    )
    .map(drop)
}

/// Deletes a run and all rows that belong to it.
pub fn remove_run(tx: &mut Tx<'_>, id: RunId) -> Result<(), StoreError> {
    let last: Option<u64> =
        tx.fetch_one("SELECT max(pos) FROM run_event WHERE run_id = ?1", params![id])?;
    meta::raise_log_floor(tx, last.unwrap_or(0))?;
    for table in
        ["attempt", "run_snapshot", "run_step", "run_event", "approval", "delivery", "team"]
    {
        tx.execute(&format!("DELETE FROM {table} WHERE run_id = ?1"), params![id])?;
    }
    run_join::remove_of_run(tx, id)?;
    tx.execute("DELETE FROM timer WHERE ref = ?1", params![id])?;
    let sql = "DELETE FROM idem WHERE namespace = (SELECT namespace FROM run WHERE id = ?1) \
               AND scope = 'run' AND idem_key = ?1";
    tx.execute(sql, params![id])?;
    tx.execute("DELETE FROM run WHERE id = ?1", params![id]).map(drop)
}

/// Deletes a task without runs, its inputs, its budget and its idempotency records.
pub fn remove_task(tx: &mut Tx<'_>, namespace: &str, id: TaskId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM idem WHERE task_id = ?1", params![id])?;
    let scope = format!("task:{id}");
    let sql = "DELETE FROM budget WHERE namespace = ?1 AND scope = ?2";
    tx.execute(sql, params![namespace, scope])?;
    tx.execute("DELETE FROM input WHERE task_id = ?1", params![id])?;
    tx.execute("DELETE FROM task WHERE id = ?1", params![id]).map(drop)
}

/// Returns runs that ended before `before` and have more events than the last one.
pub fn runs_with_events(
    tx: &mut Tx<'_>,
    before: Timestamp,
    limit: u64,
) -> Result<Vec<RunId>, StoreError> {
    tx.fetch_all(
        "SELECT id FROM run WHERE ended < ?1 AND phase = 'done'
            AND EXISTS (SELECT 1 FROM run_event e WHERE e.run_id = run.id AND e.seq < run.next_seq - 1)
          LIMIT ?2",
        params![before, limit],
    )
}

/// Deletes the events of an ended run except the last one, which contains the outcome. Returns the number of deleted
/// events.
pub fn remove_events(tx: &mut Tx<'_>, id: RunId) -> Result<u64, StoreError> {
    const OLD: &str = "run_event WHERE run_id = ?1
        AND seq < (SELECT next_seq - 1 FROM run WHERE id = ?1 AND phase = 'done')";
    let last: Option<u64> = tx.fetch_one(&format!("SELECT max(pos) FROM {OLD}"), params![id])?;
    meta::raise_log_floor(tx, last.unwrap_or(0))?;
    tx.execute(&format!("DELETE FROM {OLD}"), params![id])
}

/// Deletes at most `limit` approvals of ended runs that were decided before `before`. Returns their number.
pub fn remove_approvals(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    tx.execute(
        "/* full scan */ DELETE FROM approval WHERE id IN (
           SELECT a.id FROM approval a JOIN run r ON r.id = a.run_id
            WHERE a.state <> 'pending' AND a.decided < ?1 AND r.phase = 'done' LIMIT ?2)",
        params![before, limit],
    )
}

/// Deletes workers that stopped before `before` and hold no lease. Returns their number.
pub fn remove_workers(tx: &mut Tx<'_>, before: Timestamp) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM worker WHERE stopped < ?1 AND NOT EXISTS (
           SELECT 1 FROM run WHERE run.lease_owner = worker.id AND run.phase = 'leased')",
        params![before],
    )
}

/// Returns messages stored before `before` to which no row refers. The query scans all referring tables, so call it
/// rarely.
pub fn unreferenced_messages(
    tx: &mut Tx<'_>,
    before: Timestamp,
    limit: u64,
) -> Result<Vec<MessageId>, StoreError> {
    tx.fetch_all(
        "SELECT id FROM message WHERE created < ?1 AND id NOT IN (
             SELECT message_id FROM session_entry
             UNION ALL SELECT message_id FROM input
             UNION ALL SELECT message_id FROM run_step WHERE message_id IS NOT NULL
             UNION ALL SELECT message_id FROM run_event WHERE message_id IS NOT NULL
             UNION ALL SELECT message_id FROM delivery WHERE message_id IS NOT NULL)
          LIMIT ?2",
        params![before, limit],
    )
}

/// Deletes a message.
pub fn remove_message(tx: &mut Tx<'_>, id: MessageId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM message WHERE id = ?1", params![id]).map(drop)
}
