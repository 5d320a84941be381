//! Counts for monitoring.
//!
//! Partial indexes count the open rows. Each process counts growing quantities itself: see
//! [`CommittedChanges`](crate::CommittedChanges).

use std::time::Duration;

use provost_core::Timestamp;

use crate::query::QueryError;
use crate::table::work::run_event;
use crate::{Store, StoreError, Tx, params};

/// Maximum number of reported classes. The classes with the longest queues come first.
const CLASSES_MAX: u64 = 200;
/// Age of the last heartbeat after which a worker does not count as alive.
const HEARTBEAT_AGE_MAX: Duration = Duration::from_secs(60);

/// Number and age of waiting rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Number of waiting rows.
    pub count: u64,
    /// Time of creation of the oldest row; `None` if there are none.
    pub oldest: Option<Timestamp>,
}

/// An execution class and its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassMetrics {
    /// Namespace of the class.
    pub namespace: String,
    /// Key of the class.
    pub key: String,
    /// Concurrency limit.
    pub max_running: u64,
    /// Number of leased runs.
    pub running: u64,
    /// Runs that are ready to start.
    pub queued: Backlog,
}

/// Counts of open rows at one point in time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueMetrics {
    /// Time of the counts.
    pub at: Timestamp,
    /// Execution classes and their queues.
    pub classes: Vec<ClassMetrics>,
    /// Number of parked runs by reason.
    pub parked: Vec<(String, u64)>,
    /// Pending approvals.
    pub approvals: Backlog,
    /// Pending inputs.
    pub inputs: Backlog,
    /// Deliveries that are pending or in progress.
    pub undelivered: Backlog,
    /// Number of deliveries by state.
    pub deliveries: Vec<(String, u64)>,
    /// Number of webhook deliveries by state.
    pub posts: Vec<(String, u64)>,
    /// Number of live workers.
    pub workers: u64,
    /// Number of steps with an unknown outcome.
    pub unknown_effects: u64,
    /// Position of the newest event.
    pub last_pos: u64,
}

/// Values of the health check. Each needs one index lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthProbe {
    /// Position of the newest event.
    pub last_pos: u64,
    /// Number of live workers.
    pub workers: u64,
}

/// Returns the values of the health check.
pub async fn health(store: &Store) -> Result<HealthProbe, QueryError> {
    let read = store.read(|tx| {
        let last_pos = run_event::last_pos(tx)?;
        Ok::<_, QueryError>(HealthProbe { last_pos, workers: workers(tx)? })
    });
    read.await
}

/// Counts the open rows.
pub async fn read(store: &Store) -> Result<QueueMetrics, QueryError> {
    store.read(|tx| Ok::<_, QueryError>(collect(tx)?)).await
}

fn collect(tx: &mut Tx<'_>) -> Result<QueueMetrics, StoreError> {
    let at = tx.now();
    let states = "SELECT state, count(*) FROM";
    // The condition repeats that of the partial index, so that the database uses it.
    let unknown = "SELECT count(*) FROM run_step WHERE state IN ('planned', 'started', 'unknown') \
                   AND state = 'unknown'";
    let parked = "SELECT coalesce(parked_for, 'nothing'), count(*) FROM run \
                  WHERE phase = 'parked' GROUP BY 1 ORDER BY 1";
    Ok(QueueMetrics {
        at,
        classes: classes(tx)?,
        parked: tx.fetch_all(parked, params![])?,
        approvals: backlog(tx, "approval WHERE state = 'pending'")?,
        inputs: backlog(tx, "input WHERE state = 'pending'")?,
        undelivered: backlog(tx, "delivery WHERE state IN ('pending', 'sending')")?,
        deliveries: tx
            .fetch_all(&format!("{states} delivery GROUP BY state ORDER BY state"), params![])?,
        posts: tx.fetch_all(
            &format!("{states} webhook_post GROUP BY state ORDER BY state"),
            params![],
        )?,
        workers: workers(tx)?,
        unknown_effects: tx.fetch_one(unknown, params![])?,
        last_pos: run_event::last_pos(tx)?,
    })
}

/// Counts the workers with a recent heartbeat.
fn workers(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM worker WHERE stopped IS NULL AND seen >= ?1";
    tx.fetch_one(sql, params![tx.now().before(HEARTBEAT_AGE_MAX)])
}

/// Counts the rows and returns the creation time of the oldest.
fn backlog(tx: &mut Tx<'_>, rows: &str) -> Result<Backlog, StoreError> {
    let sql = format!("SELECT count(*), min(created) FROM {rows}");
    let (count, oldest) = tx.fetch_one(&sql, params![])?;
    Ok(Backlog { count, oldest })
}

/// Returns the execution classes with the longest queues.
fn classes(tx: &mut Tx<'_>) -> Result<Vec<ClassMetrics>, StoreError> {
    let sql = "SELECT class.namespace, class.key, class.desired, class.running, \
               coalesce(queue.number, 0), queue.oldest FROM exec_class class LEFT JOIN \
               (SELECT class_key, count(*) number, min(not_before) oldest FROM run \
                WHERE phase = 'queued' AND ready = 1 GROUP BY class_key) queue \
               ON queue.class_key = class.key ORDER BY 5 DESC, class.running DESC, class.key LIMIT ?1";
    let rows: Vec<(String, String, u64, u64, u64, Option<Timestamp>)> =
        tx.fetch_all(sql, params![CLASSES_MAX])?;
    let class = |(namespace, key, max_running, running, count, oldest)| ClassMetrics {
        namespace,
        key,
        max_running,
        running,
        queued: Backlog { count, oldest },
    };
    Ok(rows.into_iter().map(class).collect())
}
