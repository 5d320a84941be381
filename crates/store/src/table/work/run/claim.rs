//! The queue of runs: the order in a session, readiness, claims and leases.

use provost_core::scheduling::TimerKind;
use provost_core::{RunId, Timestamp, WorkerId};

use super::RunRow;
use crate::table::work::run_state::DEFERRED;
use crate::table::work::session::{self, SessionRef};
use crate::{StoreError, ToColumn, Tx, params};

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

/// Returns the next deferred child of a step, which waits until a sibling of its call ends. `None` if there is none.
pub fn next_deferred_child(
    tx: &mut Tx<'_>,
    parent: RunId,
    step: u64,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT id FROM run
                WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase = 'queued' AND not_before = ?3
                ORDER BY rank, id LIMIT 1";
    tx.fetch_optional(sql, params![parent, step, DEFERRED])
}
