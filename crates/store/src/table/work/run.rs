//! Runs: executions of a task in a session.

mod claim;
mod list;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunKind, RunPhase, RunStatus, WaitReason};
use provost_core::recovery::OutcomeCode;
use provost_core::{RunId, TaskId, Timestamp, WorkerId};

use super::session::{self, SessionRef};
use super::task;
use crate::transaction::value::TextColumn;
use crate::{FromRow, Locked, Row, StoreError, Tx, params};

pub use claim::{
    ahead_in_class, ahead_in_session, any_ready, clear_ready, expired_leases, first_due,
    first_waiting, has_rank, leased_by, next_claimable, next_deferred_child, ready_of_session,
    renew, session_owner, sessions_with_wrong_ready_flag, set_ready, still_leased, without_timer,
};
pub use list::{
    ChildRunRow, RunFilter, child, children, is_known, is_live, last_of_task, list, live_children,
    live_of_step, live_of_task, lock_live_of_task, of_task, spawn_options_of_active_children,
};

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
        /// Hash of the resource set that the run uses in all its attempts. `None` if there was none.
        resource_set: Option<String>,
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
