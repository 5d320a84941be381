//! Runs: executions of a task in a session.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunKind, RunPhase, RunStatus, WaitReason};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::TimerKind;
use provost_core::{RunId, TaskId, Timestamp, WorkerId};

use super::session::{self, SessionRef};
use super::task;
use crate::transaction::filter::Filter;
use crate::transaction::value::TextColumn;
use crate::{FromRow, Locked, Row, StoreError, ToColumn, Tx, params};

table! {
    /// A run.
    RunRow in "run" {
        /// The id.
        id: RunId,
        /// Namespace of the row.
        namespace: String,
        /// The task.
        task_id: TaskId,
        /// Position among the runs of the task.
        ordinal: u64,
        /// The session that the run writes to.
        session_id: String,
        /// The execution class.
        class_key: String,
        /// The pool of workers that may claim it.
        pool: String,
        /// The agent.
        agent: String,
        /// Revision of the agent for the whole run.
        agent_revision: u64,
        /// Execution policy, as JSON.
        policy: String,
        /// Status, for users.
        status: RunStatus,
        /// Phase, for the scheduler.
        phase: RunPhase,
        /// Outcome code.
        outcome_code: Option<OutcomeCode>,
        /// Explanation of the status.
        detail: Option<String>,
        /// True if the run can be claimed now: it is due and first in its session.
        ready: bool,
        /// Order among claimable runs: the time of queueing minus a minute per priority level.
        rank: i64,
        /// Earliest time of the start.
        not_before: Timestamp,
        /// Time by which the run must have ended.
        deadline: Option<Timestamp>,
        /// Time by which the run must have started.
        queue_deadline: Option<Timestamp>,
        /// Maximum duration after the start, in milliseconds.
        timeout_ms: Option<u64>,
        /// True if the run is the one writer of its session.
        holds_session: bool,
        /// Reason of a parked run's wait.
        parked_for: Option<WaitReason>,
        /// The fencing token. Each claim raises it; each write of a worker carries it.
        epoch: u64,
        /// The worker that holds the lease.
        lease_owner: Option<WorkerId>,
        /// Expiry of the lease unless the worker renews it.
        lease_until: Option<Timestamp>,
        /// Number of the current attempt.
        attempt_no: u64,
        /// Number of claims.
        claim_count: u64,
        /// Number of consecutive crashes without progress.
        crash_count: u64,
        /// Number of failures that count against the retry limit.
        failure_count: u64,
        /// Time of the cancellation request.
        cancel_requested: Option<Timestamp>,
        /// Code of the cancellation request.
        cancel_code: Option<OutcomeCode>,
        /// Time at which an input requested an interruption.
        interrupt_requested: Option<Timestamp>,
        /// Time at which an operator or exhausted retries paused the run.
        paused: Option<Timestamp>,
        /// Number of the next event. [`take_event_numbers`] and [`update_progress`](super::journal::update_progress)
        /// raise it.
        next_seq: u64,
        /// Number of the next step. [`take_step_number`] and [`update_progress`](super::journal::update_progress)
        /// raise it.
        next_step: u64,
        /// Every step before this one has an outcome. The first step without an outcome may be far behind it.
        open_from: u64,
        /// True while only tools without side effects may run, until an unknown effect is resolved.
        restricted: bool,
        /// Session revision at the start.
        base_revision: Option<u64>,
        /// The parent run.
        parent_run_id: Option<RunId>,
        /// The step of the parent that spawned the run.
        parent_step: Option<u64>,
        /// Number of ancestors.
        depth: u64,
        /// Options with which the parent spawned the run, as JSON.
        spawn: Option<String>,
        /// The run whose first steps a fork shares.
        forked_from: Option<RunId>,
        /// The last shared step of a fork.
        forked_step: Option<u64>,
        /// Oldest build whose format can read the steps of the run.
        min_build: u64,
        /// Usage, as JSON.
        usage: Option<String>,
        /// Cost, in millionths of the currency.
        cost_micros: i64,
        /// Output of the run, as JSON.
        result: Option<String>,
        /// Time of creation.
        created: Timestamp,
        /// Time of the first claim.
        started: Option<Timestamp>,
        /// Time of the end.
        ended: Option<Timestamp>,
        /// Kind of executor.
        kind: RunKind,
    }
}

impl RunRow {
    /// Parses the tenancy boundary.
    pub fn namespace(&self) -> Result<Namespace, StoreError> {
        TextColumn { table: "run", column: "namespace", row: &self.id, text: &self.namespace }
            .parse()
    }

    /// Returns the session that the run writes to.
    pub fn session(&self) -> SessionRef<'_> {
        SessionRef { namespace: &self.namespace, id: &self.session_id }
    }
}

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

/// Returns the run with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: RunId) -> Result<Option<RunRow>, StoreError> {
    tx.fetch_optional(&RunRow::select("WHERE id = ?1"), params![id])
}

/// Immutable columns of a run that identify the rows to lock before it.
struct RunOwners {
    namespace: String,
    session_id: String,
    task_id: TaskId,
    parent: Option<RunId>,
}

impl FromRow for RunOwners {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            namespace: row.take()?,
            session_id: row.take()?,
            task_id: row.take()?,
            parent: row.take()?,
        })
    }
}

impl RunOwners {
    /// Returns the owners of a run. `None` if it does not exist.
    fn of(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT namespace, session_id, task_id, parent_run_id FROM run WHERE id = ?1";
        tx.fetch_optional(sql, params![id])
    }

    /// Locks the session and the task of the run.
    fn lock(&self, tx: &mut Tx<'_>) {
        session::lock_key(tx, &self.namespace, &self.session_id);
        task::lock_key(tx, self.task_id);
    }
}

/// Returns the run with this id, locked after its session and its task. The same three rows of its parent are locked
/// first, because the end of a run changes its parent.
pub fn lock(tx: &mut Tx<'_>, id: RunId) -> Result<Option<Locked<RunRow>>, StoreError> {
    let Some(place) = RunOwners::of(tx, id)? else { return Ok(None) };
    if let Some(parent) = place.parent
        && let Some(above) = RunOwners::of(tx, parent)?
    {
        above.lock(tx);
        tx.lock_key("run", params![parent]);
    }
    place.lock(tx);
    tx.lock(&RunRow::select("WHERE id = ?1"), params![id])
}

/// Returns the run with this id, locked like [`lock`]. `None` if the namespace has none with this id.
pub fn lock_in(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: RunId,
) -> Result<Option<Locked<RunRow>>, StoreError> {
    Ok(lock(tx, id)?.filter(|run| run.namespace == namespace))
}

/// Returns the run with this id. `None` if the namespace has none with this id.
pub fn find(tx: &mut Tx<'_>, namespace: &str, id: RunId) -> Result<Option<RunRow>, StoreError> {
    tx.fetch_optional(&RunRow::select("WHERE id = ?2 AND namespace = ?1"), params![namespace, id])
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

/// Returns true if a queued run of a session has this rank.
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

/// Returns the number of claimable runs before a run in its class.
pub fn ahead_in_class(tx: &mut Tx<'_>, run: &RunRow) -> Result<u64, StoreError> {
    tx.fetch_one(
        "SELECT count(*) FROM run WHERE class_key = ?1 AND phase = 'queued' AND ready = 1
            AND (rank < ?2 OR (rank = ?2 AND id < ?3))",
        params![run.class_key, run.rank, run.id],
    )
}

/// Returns the number of runs before a run in its session: the run that holds the session and the queued runs with a
/// lower rank.
pub fn ahead_in_session(tx: &mut Tx<'_>, run: &RunRow) -> Result<u64, StoreError> {
    let holders: u64 = tx.fetch_one(
        "SELECT count(*) FROM run WHERE namespace = ?1 AND session_id = ?2 AND holds_session = 1 AND id <> ?3",
        params![run.namespace, run.session_id, run.id],
    )?;
    let waiting: u64 = tx.fetch_one(
        "SELECT count(*) FROM run WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' AND holds_session = 0
            AND (rank < ?3 OR (rank = ?3 AND id < ?4))",
        params![run.namespace, run.session_id, run.rank, run.id],
    )?;
    Ok(holders + waiting)
}

/// Returns the queued run of a session with the lowest rank. `None` if there is none.
pub fn first_waiting(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' ORDER BY rank, id LIMIT 1",
    );
    tx.fetch_optional(&sql, params![namespace, session_id])
}

/// Returns the run that holds a session. `None` if no run does.
pub fn session_owner(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select("WHERE namespace = ?1 AND session_id = ?2 AND holds_session = 1");
    tx.fetch_optional(&sql, params![namespace, session_id])
}

/// Returns runs with an expired lease, the longest expired first.
pub fn expired_leases(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<RunRow>, StoreError> {
    let sql = RunRow::select(
        "WHERE phase = 'leased' AND lease_until <= ?1 ORDER BY lease_until, id LIMIT ?2",
    );
    tx.fetch_all(&sql, params![tx.now(), limit])
}

/// Returns the runs that a worker has leased.
pub fn leased_by(tx: &mut Tx<'_>, worker: WorkerId) -> Result<Vec<RunRow>, StoreError> {
    let sql = RunRow::select("WHERE phase = 'leased' AND lease_owner = ?1 ORDER BY id");
    tx.fetch_all(&sql, params![worker])
}

/// Returns the due run of a session with the lowest rank. `None` if there is none.
pub fn first_due(
    tx: &mut Tx<'_>,
    namespace: &str,
    session_id: &str,
) -> Result<Option<RunRow>, StoreError> {
    let sql = RunRow::select(
        "WHERE namespace = ?1 AND session_id = ?2 AND phase = 'queued' AND not_before <= ?3
         ORDER BY rank, id LIMIT 1",
    );
    tx.fetch_optional(&sql, params![namespace, session_id, tx.now()])
}

/// Makes one run of a session ready, or none. Returns true if the run was not ready before. The caller must have
/// locked the session.
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

/// Marks a run as not claimable, regardless of its session.
pub fn clear_ready(tx: &mut Tx<'_>, id: RunId) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE run SET ready = 0 WHERE id = ?1", params![id]).map(drop)
}

/// Returns true if any run is marked as ready.
pub fn any_ready(tx: &mut Tx<'_>) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run WHERE phase = 'queued' AND ready = 1 LIMIT 1", params![])
}

/// Returns the next run to claim in a pool, with its class, except the runs in `except`. `None` if none can be
/// claimed. The order is fair: the least recently served namespace, in it the least recently served class with a free
/// slot, in it the run with the lowest rank.
pub fn next_claimable(
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
    tx.fetch_optional(&sql, &values)
}

/// Extends the leases of a worker, except for runs with a cancellation request.
pub fn renew(tx: &mut Tx<'_>, worker: WorkerId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE run SET lease_until = ?2
                WHERE lease_owner = ?1 AND phase = 'leased' AND cancel_requested IS NULL";
    tx.execute_fenced(sql, params![worker, until]).map(drop)
}

/// Returns all runs that a worker has leased, with their epochs and whether a cancellation or an interruption was
/// requested.
pub fn still_leased(
    tx: &mut Tx<'_>,
    worker: WorkerId,
) -> Result<Vec<(RunId, u64, bool)>, StoreError> {
    tx.fetch_all(
        "SELECT id, epoch, CASE WHEN cancel_requested IS NULL AND interrupt_requested IS NULL THEN 0 ELSE 1 END
           FROM run WHERE lease_owner = ?1 AND phase = 'leased' ORDER BY id",
        params![worker],
    )
}

/// Returns sessions whose next run is claimable without being marked as ready, or the reverse.
pub fn sessions_with_wrong_ready_flag(
    tx: &mut Tx<'_>,
    limit: u64,
) -> Result<Vec<(String, String)>, StoreError> {
    let held = "EXISTS (SELECT 1 FROM run h WHERE h.namespace = q.namespace AND h.session_id = q.session_id
                   AND h.holds_session = 1 AND h.id <> q.id)";
    let another = "EXISTS (SELECT 1 FROM run w WHERE w.namespace = q.namespace AND w.session_id = q.session_id
                   AND w.phase = 'queued' AND w.ready = 1)";
    // Each half uses an index of its own.
    let sql = format!(
        "SELECT q.namespace, q.session_id FROM run q
          WHERE q.phase = 'queued' AND q.ready = 1 AND (q.not_before > ?1 OR {held})
         UNION
         SELECT q.namespace, q.session_id FROM run q
          WHERE q.phase = 'queued' AND q.ready = 0 AND q.not_before <= ?1 AND NOT {held} AND NOT {another}
          LIMIT ?2"
    );
    tx.fetch_all(&sql, params![tx.now(), limit])
}

/// Returns queued runs that wait for their start time without a timer of this kind. Runs whose start time is
/// `deferred` wait for something else and are excluded.
pub fn without_timer(
    tx: &mut Tx<'_>,
    kind: TimerKind,
    held: Timestamp,
    limit: u64,
) -> Result<Vec<(RunId, Timestamp)>, StoreError> {
    tx.fetch_all(
        "SELECT id, not_before FROM run WHERE phase = 'queued' AND ready = 0 AND not_before > ?1 AND not_before <> ?4
            AND NOT EXISTS (SELECT 1 FROM timer t WHERE t.kind = ?2 AND t.ref = run.id) LIMIT ?3",
        params![tx.now(), kind, limit, held],
    )
}

/// Returns the run of a session that can be claimed now in a pool, with its class. `None` if none can.
pub fn ready_of_session(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    pool: &str,
    build: u64,
) -> Result<Option<(RunId, String)>, StoreError> {
    tx.fetch_optional(
        "SELECT r.id, c.key FROM run r JOIN exec_class c ON c.key = r.class_key
          WHERE r.namespace = ?1 AND r.session_id = ?2 AND r.phase = 'queued' AND r.ready = 1 AND r.min_build <= ?4
            AND c.pool = ?3 AND c.running < c.desired AND (c.probe_at IS NULL OR c.probe_at <= ?5)
            AND NOT EXISTS (SELECT 1 FROM ceiling x WHERE x.running >= x.desired
                  AND x.scope IN ('namespace:' || c.namespace, 'pool:' || c.pool))
          LIMIT 1",
        params![session.namespace, session.id, pool, build, tx.now()],
    )
}

/// Reserves the next `count` event numbers of a run and returns the first; `None` if the run does not exist.
pub fn take_event_numbers(
    tx: &mut Tx<'_>,
    id: RunId,
    count: u64,
) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE run SET next_seq = next_seq + ?2 WHERE id = ?1 RETURNING next_seq - ?2";
    tx.fetch_optional_fenced(sql, params![id, count])
}

/// Reserves the next step number of a run; `None` if the run does not exist.
pub fn take_step_number(tx: &mut Tx<'_>, id: RunId) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE run SET next_step = next_step + 1 WHERE id = ?1 RETURNING next_step - 1";
    tx.fetch_optional_fenced(sql, params![id])
}
