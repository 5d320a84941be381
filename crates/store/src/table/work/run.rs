//! Runs: one life of a task in a session.

use provost_core::{RunId, TaskId, Timestamp, WorkerId};

use super::session::{self, SessionRef};
use super::task;
use crate::transaction::filter::Filter;
use crate::{FromRow, Locked, Row, StoreError, ToColumn, Tx, params};

table! {
    /// One run.
    RunRow in "run" {
        /// The id.
        id: RunId,
        /// The tenancy boundary.
        namespace: String,
        /// The task it works on.
        task_id: TaskId,
        /// Its place among the task's runs.
        ordinal: u64,
        /// The session it writes to.
        session_id: String,
        /// The class whose budget it uses.
        class_key: String,
        /// The workers that may take it.
        pool: String,
        /// The agent.
        agent: String,
        /// The agent's revision, for the whole life of the run.
        agent_revision: u64,
        /// The execution policy.
        policy: String,
        /// How it stands for people.
        status: String,
        /// How it stands for the scheduler.
        phase: String,
        /// How it ended.
        outcome_code: Option<String>,
        /// What to say about how it stands.
        detail: Option<String>,
        /// It can be claimed now: it is due, and first in its session.
        ready: bool,
        /// Its order among runs that can be claimed: the time of queueing minus a minute for each priority.
        rank: i64,
        /// It may not start earlier.
        not_before: Timestamp,
        /// It must have ended by then.
        deadline: Option<Timestamp>,
        /// It must have started by then.
        queue_deadline: Option<Timestamp>,
        /// How long it may take once it has started, in milliseconds.
        timeout_ms: Option<u64>,
        /// It is the one writer of its session.
        holds_session: bool,
        /// What a parked run waits for.
        parked_for: Option<String>,
        /// The fencing token: each claim raises it, each write of a worker carries it.
        epoch: u64,
        /// Who works on it.
        lease_owner: Option<WorkerId>,
        /// Until when without a word from the owner.
        lease_until: Option<Timestamp>,
        /// The number of the current attempt.
        attempt_no: u64,
        /// How often it was claimed.
        claim_count: u64,
        /// Crashes in a row without progress.
        crash_count: u64,
        /// Failures that used up a try.
        failure_count: u64,
        /// When somebody asked to cancel it.
        cancel_requested: Option<Timestamp>,
        /// Why.
        cancel_code: Option<String>,
        /// When an input asked to interrupt it.
        interrupt_requested: Option<Timestamp>,
        /// When an operator, or running out of tries, paused it.
        paused: Option<Timestamp>,
        /// The number of the next event; [`take_event_numbers`] and [`advance`](super::journal::advance) raise it.
        next_seq: u64,
        /// The number of the next step; [`take_step_number`] and [`advance`](super::journal::advance) raise it.
        next_step: u64,
        /// No step before this one is without an outcome; it may be far before the first that is.
        open_from: u64,
        /// Only tools without an effect may run until an unknown effect is cleared up.
        restricted: bool,
        /// The session's revision at the start.
        base_revision: Option<u64>,
        /// The run that started it.
        parent_run_id: Option<RunId>,
        /// The step of that run that started it.
        parent_step: Option<u64>,
        /// How many runs are above it.
        depth: u64,
        /// What the run that started it wants of it, as JSON.
        spawn: Option<String>,
        /// The run whose first steps it shares.
        forked_from: Option<RunId>,
        /// The last step that it shares.
        forked_step: Option<u64>,
        /// The oldest build that can read its steps.
        min_build: u64,
        /// What it used, as JSON.
        usage: Option<String>,
        /// What it cost.
        cost_micros: i64,
        /// What it answered, as JSON.
        result: Option<String>,
        /// When it was made.
        created: Timestamp,
        /// When it was first claimed.
        started: Option<Timestamp>,
        /// When it ended.
        ended: Option<Timestamp>,
        /// What it executes.
        kind: String,
    }
}

impl RunRow {
    /// The session it writes to.
    pub fn session(&self) -> SessionRef<'_> {
        SessionRef { namespace: &self.namespace, id: &self.session_id }
    }
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Of this task only.
    pub task_id: Option<TaskId>,
    /// Of this session only.
    pub session_id: Option<String>,
    /// Of this agent only.
    pub agent: Option<String>,
    /// With this status only.
    pub status: Option<String>,
    /// In this phase only.
    pub phase: Option<String>,
    /// Started by this run only.
    pub parent: Option<RunId>,
    /// Older than this one: the last of the page before.
    pub before: Option<RunId>,
}

/// The run with the id.
pub fn get(tx: &mut Tx<'_>, id: RunId) -> Result<Option<RunRow>, StoreError> {
    tx.optional(&RunRow::select("WHERE id = ?1"), params![id])
}

/// What never changes of a run and names the rows that are locked before it.
struct Place {
    namespace: String,
    session_id: String,
    task_id: TaskId,
    parent: Option<RunId>,
}

impl FromRow for Place {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            namespace: row.take()?,
            session_id: row.take()?,
            task_id: row.take()?,
            parent: row.take()?,
        })
    }
}

impl Place {
    fn of(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT namespace, session_id, task_id, parent_run_id FROM run WHERE id = ?1";
        tx.optional(sql, params![id])
    }

    /// Locks the session and the task of the run.
    fn lock(&self, tx: &mut Tx<'_>) {
        session::lock_key(tx, &self.namespace, &self.session_id);
        task::lock_key(tx, self.task_id);
    }
}

/// The run with the id, locked after its session and its task, and these after the same three rows of its parent: the end of a
/// run changes its parent.
pub fn lock(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Locked<RunRow>>, StoreError> {
    let Some(place) = Place::of(tx, id)? else { return Ok(None) };
    if let Some(parent) = place.parent
        && let Some(above) = Place::of(tx, parent)?
    {
        above.lock(tx);
        tx.lock_key("run", params![parent]);
    }
    place.lock(tx);
    tx.lock(&RunRow::select("WHERE id = ?1"), params![id])
}

/// The run with the id, locked like [`lock`], if it belongs to the namespace.
pub fn lock_in(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: RunId,
) -> Result<Option<Locked<RunRow>>, StoreError> {
    Ok(lock(tx, id)?.filter(|run| run.namespace == namespace))
}

/// The run with the id, if it belongs to the namespace.
pub fn find(tx: &mut Tx<'_>, namespace: &str, id: RunId) -> Result<Option<RunRow>, StoreError> {
    tx.optional(&RunRow::select("WHERE id = ?2 AND namespace = ?1"), params![namespace, id])
}

/// Runs of a namespace, newest first.
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

/// The runs of a task, in order.
pub fn of_task(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Vec<RunRow>, StoreError> {
    tx.all(&RunRow::select("WHERE task_id = ?1 ORDER BY ordinal"), params![task_id])
}

/// The newest run of a task.
pub fn last_of_task(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select("WHERE task_id = ?1 ORDER BY ordinal DESC LIMIT 1");
    tx.optional(&sql, params![task_id])
}

/// The runs that a run has started, oldest first.
pub fn children(tx: &mut Tx<'_>, parent: RunId) -> Result<Vec<RunRow>, StoreError> {
    tx.all(&RunRow::select("WHERE parent_run_id = ?1 ORDER BY id"), params![parent])
}

/// What the run above it wants to know of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRow {
    /// The run.
    pub id: RunId,
    /// How it stands for people.
    pub status: String,
    /// What to say about how it stands.
    pub detail: Option<String>,
    /// What it answered, as JSON.
    pub result: Option<String>,
    /// What the run that started it wants of it, as JSON.
    pub spawn: Option<String>,
}

impl From<RunRow> for ChildRow {
    fn from(run: RunRow) -> Self {
        let RunRow { id, status, detail, result, spawn, .. } = run;
        Self { id, status, detail, result, spawn }
    }
}

impl FromRow for ChildRow {
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

/// The run with the id, if that run has started it.
pub fn child(tx: &mut Tx<'_>, parent: RunId, id: RunId) -> Result<Option<ChildRow>, StoreError> {
    let sql =
        "SELECT id, status, detail, result, spawn FROM run WHERE id = ?1 AND parent_run_id = ?2";
    tx.optional(sql, params![id, parent])
}

/// How many of the children that one step of a run has started have not ended.
pub fn live_of_step(tx: &mut Tx<'_>, parent: RunId, step: u64) -> Result<u64, StoreError> {
    tx.one(
        "SELECT count(*) FROM run WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase <> 'done'",
        params![parent, step],
    )
}

/// The runs that a run has started and that have not ended.
pub fn live_children(tx: &mut Tx<'_>, parent: RunId) -> Result<Vec<RunRow>, StoreError> {
    let sql = "WHERE parent_run_id = ?1 AND phase <> 'done' ORDER BY rank, id";
    tx.all(&RunRow::select(sql), params![parent])
}

/// True if there is a run with the id that has not ended.
pub fn is_live(tx: &mut Tx<'_>, id: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run WHERE id = ?1 AND phase <> 'done'", params![id])
}

/// True if there is a run with the id.
pub fn is_known(tx: &mut Tx<'_>, id: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run WHERE id = ?1", params![id])
}

/// On what terms the runs were started that runs of a session have started and that have not ended.
pub fn terms_of_active_children(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Vec<Option<String>>, StoreError> {
    tx.all(
        "SELECT c.spawn FROM task t JOIN run p ON p.task_id = t.id JOIN run c ON c.parent_run_id = p.id
          WHERE t.namespace = ?1 AND t.session_id = ?2 AND c.phase <> 'done'",
        params![namespace, session_id],
    )
}

/// Finds the runs of a task that have not ended: those that have begun first, then as they wait.
const LIVE_OF_TASK: &str = "WHERE task_id = ?1 AND phase <> 'done' \
                            ORDER BY CASE WHEN attempt_no > 0 THEN 0 ELSE 1 END, rank, ordinal";

/// The runs of a task that have not ended: those that have begun first, then as they wait.
pub fn live_of_task(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Vec<RunRow>, StoreError> {
    tx.all(&RunRow::select(LIVE_OF_TASK), params![task_id])
}

/// The runs of a task that have not ended, locked: those that have begun first, then as they wait. The task must be locked.
pub fn lock_live_of_task(
    tx: &mut Tx<'_>,
    task_id: TaskId,
) -> Result<Vec<Locked<RunRow>>, StoreError> {
    task::require_lock(tx, task_id, "runs of the task")?;
    let sql = RunRow::select(LIVE_OF_TASK);
    tx.lock_all(&sql, params![task_id])
}

/// True if a run that waits in a session has the rank.
pub fn has_rank(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    rank: i64,
) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM run WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' AND rank = ?3",
        params![namespace, session_id, rank],
    )
}

/// How many runs that can be claimed come before a run in its class.
pub fn ahead_in_class(tx: &mut Tx<'_>, run: &RunRow) -> Result<u64, StoreError> {
    tx.one(
        "SELECT count(*) FROM run WHERE class_key = ?1 AND phase = 'queued' AND ready = 1
            AND (rank < ?2 OR (rank = ?2 AND id < ?3))",
        params![run.class_key, run.rank, run.id],
    )
}

/// How many runs of its session come before a run: the one that holds it, and those that wait before it.
pub fn ahead_in_session(tx: &mut Tx<'_>, run: &RunRow) -> Result<u64, StoreError> {
    let holders: u64 = tx.one(
        "SELECT count(*) FROM run WHERE namespace = ?1 AND session_id = ?2 AND holds_session = 1 AND id <> ?3",
        params![run.namespace, run.session_id, run.id],
    )?;
    let waiting: u64 = tx.one(
        "SELECT count(*) FROM run WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' AND holds_session = 0
            AND (rank < ?3 OR (rank = ?3 AND id < ?4))",
        params![run.namespace, run.session_id, run.rank, run.id],
    )?;
    Ok(holders + waiting)
}

/// The run that is next in a session, among those that wait.
pub fn first_waiting(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' ORDER BY rank, id LIMIT 1",
    );
    tx.optional(&sql, params![namespace, session_id])
}

/// The run that holds a session.
pub fn holder(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select("WHERE namespace = ?1 AND session_id = ?2 AND holds_session = 1");
    tx.optional(&sql, params![namespace, session_id])
}

/// Runs whose lease ran out, the longest lost first.
pub fn expired_leases(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<RunRow>, StoreError> {
    let sql = RunRow::select(
        "WHERE phase = 'leased' AND lease_until <= ?1 ORDER BY lease_until, id LIMIT ?2",
    );
    tx.all(&sql, params![tx.now(), limit])
}

/// Runs that a worker owns.
pub fn owned_by(tx: &mut Tx<'_>, worker: WorkerId) -> Result<Vec<RunRow>, StoreError> {
    let sql = RunRow::select("WHERE phase = 'leased' AND lease_owner = ?1 ORDER BY id");
    tx.all(&sql, params![worker])
}

/// The due run that is next in a session, among those that wait.
pub fn first_due(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' AND not_before <= ?3
         ORDER BY rank, id LIMIT 1",
    );
    tx.optional(&sql, params![namespace, session_id, tx.now()])
}

/// Makes one run of a session ready, or none; true if one became ready that was not. The session must be locked.
pub fn set_ready(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
    ready: Option<RunId>,
) -> Result<bool, StoreError> {
    session::require_lock(tx, namespace, session_id, "a new run that is ready")?;
    let sql = "UPDATE run SET ready = 0
                WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' AND ready = 1
                  AND (?3 IS NULL OR id <> ?3)";
    tx.execute_fenced(sql, params![namespace, session_id, ready])?;
    let Some(id) = ready else { return Ok(false) };
    let sql = "UPDATE run SET ready = 1 WHERE id = ?1 AND phase = 'queued' AND ready = 0";
    Ok(tx.execute_fenced(sql, params![id])? == 1)
}

/// Takes back that a run can be claimed, whatever its session says.
pub fn unmark(tx: &mut Tx<'_>, id: RunId) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE run SET ready = 0 WHERE id = ?1", params![id]).map(drop)
}

/// True if any run can be claimed, as far as its own row says.
pub fn any_ready(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run WHERE phase = 'queued' AND ready = 1 LIMIT 1", params![])
}

/// The run to claim next in a pool, and its class, but none of `except`. Of the namespaces that wait the least recently
/// served is next, in it the least recently served class that has room, and in that the first by rank.
pub fn next_ready(
    tx: &mut Tx<'_>,
    pool: &str,
    build: u64,
    except: &[RunId],
) -> Result<Option<(RunId, String)>, StoreError> {
    let places: Vec<String> = (4..4 + except.len()).map(|place| format!("?{place}")).collect();
    let others = match except {
        [] => String::new(),
        _ => format!("AND q.id NOT IN ({})", places.join(", ")),
    };
    let sql = format!(
        "SELECT r.id, c.key FROM exec_class c JOIN run r ON r.id = (
           SELECT q.id FROM run q
            WHERE q.class_key = c.key AND q.phase = 'queued' AND q.ready = 1 AND q.min_build <= ?2 {others}
            ORDER BY q.rank, q.id LIMIT 1)
          WHERE c.pool = ?1 AND c.running < c.desired AND (c.probe_at IS NULL OR c.probe_at <= ?3)
            AND NOT EXISTS (SELECT 1 FROM ceiling x WHERE x.running >= x.desired
                  AND x.scope IN ('namespace:' || c.namespace, 'pool:' || c.pool))
          ORDER BY (SELECT max(n.turn) FROM exec_class n WHERE n.pool = c.pool AND n.namespace = c.namespace),
                   c.turn, r.rank, r.id LIMIT 1"
    );
    let now = tx.now();
    let mut values = params![pool, build, now].to_vec();
    values.extend(except.iter().map(ToColumn::to_value));
    tx.optional(&sql, &values)
}

/// Renews the leases of a worker, except of runs that somebody asked to cancel.
pub fn renew(tx: &mut Tx<'_>, worker: WorkerId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE run SET lease_until = ?2
                WHERE lease_owner = ?1 AND phase = 'leased' AND cancel_requested IS NULL";
    tx.execute_fenced(sql, params![worker, until]).map(drop)
}

/// Every run that a worker holds, with its epoch and whether somebody wants it to stop.
pub fn held(tx: &mut Tx<'_>, worker: WorkerId) -> Result<Vec<(RunId, u64, bool)>, StoreError> {
    tx.all(
        "SELECT id, epoch, CASE WHEN cancel_requested IS NULL AND interrupt_requested IS NULL THEN 0 ELSE 1 END
           FROM run WHERE lease_owner = ?1 AND phase = 'leased' ORDER BY id",
        params![worker],
    )
}

/// Sessions whose next run is not marked ready though it could be claimed, or the reverse.
pub fn misjudged_sessions(
    tx: &mut Tx<'_>,
    limit: u64,
) -> Result<Vec<(String, String)>, StoreError> {
    let held = "EXISTS (SELECT 1 FROM run h WHERE h.namespace = q.namespace AND h.session_id = q.session_id
                   AND h.holds_session = 1 AND h.id <> q.id)";
    let another = "EXISTS (SELECT 1 FROM run w WHERE w.namespace = q.namespace AND w.session_id = q.session_id
                   AND w.phase = 'queued' AND w.ready = 1)";
    // Each half has an index of its own.
    let sql = format!(
        "SELECT q.namespace, q.session_id FROM run q
          WHERE q.phase = 'queued' AND q.ready = 1 AND (q.not_before > ?1 OR {held})
         UNION
         SELECT q.namespace, q.session_id FROM run q
          WHERE q.phase = 'queued' AND q.ready = 0 AND q.not_before <= ?1 AND NOT {held} AND NOT {another}
          LIMIT ?2"
    );
    tx.all(&sql, params![tx.now(), limit])
}

/// Runs that wait for their time without a timer that would tell them; those whose time is `held` wait for something else.
pub fn without_timer(
    tx: &mut Tx<'_>,
    kind: &str,
    held: Timestamp,
    limit: u64,
) -> Result<Vec<(RunId, Timestamp)>, StoreError> {
    tx.all(
        "SELECT id, not_before FROM run WHERE phase = 'queued' AND ready = 0 AND not_before > ?1 AND not_before <> ?4
            AND NOT EXISTS (SELECT 1 FROM timer t WHERE t.kind = ?2 AND t.ref = run.id) LIMIT ?3",
        params![tx.now(), kind, limit, held],
    )
}

/// The run of one session that can be claimed now in a pool, and its class.
pub fn ready_of_session(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    pool: &str,
    build: u64,
) -> Result<Option<(RunId, String)>, StoreError> {
    tx.optional(
        "SELECT r.id, c.key FROM run r JOIN exec_class c ON c.key = r.class_key
          WHERE r.namespace = ?1 AND r.session_id = ?2 AND r.phase = 'queued' AND r.ready = 1 AND r.min_build <= ?4
            AND c.pool = ?3 AND c.running < c.desired AND (c.probe_at IS NULL OR c.probe_at <= ?5)
            AND NOT EXISTS (SELECT 1 FROM ceiling x WHERE x.running >= x.desired
                  AND x.scope IN ('namespace:' || c.namespace, 'pool:' || c.pool))
          LIMIT 1",
        params![session.namespace, session.id, pool, build, tx.now()],
    )
}

/// Takes the next `count` event numbers of a run and returns the first; nothing if there is no such run.
pub fn take_event_numbers(
    tx: &mut Tx<'_>,
    id: RunId,
    count: u64,
) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE run SET next_seq = next_seq + ?2 WHERE id = ?1 RETURNING next_seq - ?2";
    tx.optional_fenced(sql, params![id, count])
}

/// Takes the next step number of a run; nothing if there is no such run.
pub fn take_step_number(tx: &mut Tx<'_>, id: RunId) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE run SET next_step = next_step + 1 WHERE id = ?1 RETURNING next_step - 1";
    tx.optional_fenced(sql, params![id])
}
