//! How much there is of everything, for whoever watches a service.
//!
//! What is open is counted through indexes that hold only that. What only grows is counted from one position of the log to
//! another, so that whoever asks again and again never counts an event twice.

use std::time::Duration;

use provost_core::{DurableEventKind, Timestamp};

use crate::table::work::run_event;
use crate::{StoreError, Tx, params};

/// Classes that are told of at most, those with the longest queues first.
const CLASSES_MAX: u64 = 200;
/// A node that said no word for so long does not count as alive.
const SILENT: Duration = Duration::from_secs(60);

/// How many there are, and since when the oldest is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// How many.
    pub count: u64,
    /// When the oldest came.
    pub oldest: Option<Timestamp>,
}

/// A class and its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCensus {
    /// The namespace.
    pub namespace: String,
    /// The key of the class.
    pub key: String,
    /// Runs that may work at once.
    pub desired: u64,
    /// Runs at work.
    pub running: u64,
    /// Runs that could start now.
    pub queued: Waiting,
}

/// How much there is now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Census {
    /// When it was taken.
    pub at: Timestamp,
    /// Classes and their queues.
    pub classes: Vec<ClassCensus>,
    /// Runs that are parked, by what for.
    pub parked: Vec<(String, u64)>,
    /// Questions that nobody has answered.
    pub approvals: Waiting,
    /// Messages that no run has taken in.
    pub inputs: Waiting,
    /// Answers to send out that have not arrived.
    pub undelivered: Waiting,
    /// Answers to send out, by state.
    pub deliveries: Vec<(String, u64)>,
    /// Posts to webhooks, by state.
    pub posts: Vec<(String, u64)>,
    /// Nodes that are alive.
    pub workers: u64,
    /// Effects of which nobody knows whether they happened.
    pub unknown_effects: u64,
    /// The position of the newest event.
    pub last_pos: u64,
}

/// The few things that say whether the database is well, each found at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vital {
    /// The position of the newest event.
    pub last_pos: u64,
    /// Nodes that are alive.
    pub workers: u64,
}

/// A run that ended: whose agent it was, what it cost, and its usage as JSON.
pub type EndedRun = (String, u64, Option<String>);

/// Looks whether the database is well.
pub fn vital(tx: &mut Tx<'_>) -> Result<Vital, StoreError> {
    Ok(Vital { last_pos: run_event::last_pos(tx)?, workers: workers(tx)? })
}

/// Counts what is there.
pub fn take(tx: &mut Tx<'_>) -> Result<Census, StoreError> {
    let at = tx.now();
    let states = "SELECT state, count(*) FROM";
    // The words of the partial index come first, so that it is used.
    let unknown = "SELECT count(*) FROM run_step WHERE state IN ('planned', 'started', 'unknown') \
                   AND state = 'unknown'";
    let parked = "SELECT coalesce(parked_for, 'nothing'), count(*) FROM run \
                  WHERE phase = 'parked' GROUP BY 1 ORDER BY 1";
    Ok(Census {
        at,
        classes: classes(tx)?,
        parked: tx.all(parked, params![])?,
        approvals: waiting(tx, "approval WHERE state = 'pending'")?,
        inputs: waiting(tx, "input WHERE state = 'pending'")?,
        undelivered: waiting(tx, "delivery WHERE state IN ('pending', 'sending')")?,
        deliveries: tx
            .all(&format!("{states} delivery GROUP BY state ORDER BY state"), params![])?,
        posts: tx
            .all(&format!("{states} webhook_post GROUP BY state ORDER BY state"), params![])?,
        workers: workers(tx)?,
        unknown_effects: tx.one(unknown, params![])?,
        last_pos: run_event::last_pos(tx)?,
    })
}

/// Events by kind, after one position and up to another.
pub fn events(tx: &mut Tx<'_>, after: u64, to: u64) -> Result<Vec<(String, u64)>, StoreError> {
    let sql = "SELECT kind, count(*) FROM run_event WHERE pos > ?1 AND pos <= ?2 \
               GROUP BY kind ORDER BY kind";
    tx.all(sql, params![after, to])
}

/// The runs that ended after one position and up to another.
pub fn ended(tx: &mut Tx<'_>, after: u64, to: u64) -> Result<Vec<EndedRun>, StoreError> {
    let ends = DurableEventKind::ALL.iter().filter(|kind| kind.is_terminal());
    let ends: Vec<String> = ends.map(|kind| format!("'{kind}'")).collect();
    let sql = format!(
        "SELECT run.agent, run.cost_micros, run.usage \
         FROM run_event JOIN run ON run.id = run_event.run_id \
         WHERE run_event.pos > ?1 AND run_event.pos <= ?2 AND run_event.kind IN ({})",
        ends.join(", ")
    );
    tx.all(&sql, params![after, to])
}

/// How many milliseconds the runs waited that were taken after one position and up to another: from when something last
/// happened to a run, or from when it was due, until a worker took it.
pub fn claim_waits(tx: &mut Tx<'_>, after: u64, to: u64) -> Result<Vec<u64>, StoreError> {
    // A time that lies behind the claim is that of a later wait.
    let sql = format!(
        "SELECT max(0, taken.at - max(before.at, \
                      CASE WHEN run.not_before <= taken.at THEN run.not_before ELSE 0 END)) \
               FROM run_event taken JOIN run ON run.id = taken.run_id \
               JOIN run_event before ON before.run_id = taken.run_id AND before.seq = taken.seq - 1 \
               WHERE taken.pos > ?1 AND taken.pos <= ?2 AND taken.kind = '{}'",
        DurableEventKind::AttemptStarted
    );
    tx.all(&sql, params![after, to])
}

fn workers(tx: &mut Tx<'_>) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM worker WHERE stopped IS NULL AND seen >= ?1";
    tx.one(sql, params![tx.now().before(SILENT)])
}

fn waiting(tx: &mut Tx<'_>, what: &str) -> Result<Waiting, StoreError> {
    let sql = format!("SELECT count(*), min(created) FROM {what}");
    let (count, oldest) = tx.one(&sql, params![])?;
    Ok(Waiting { count, oldest })
}

fn classes(tx: &mut Tx<'_>) -> Result<Vec<ClassCensus>, StoreError> {
    let sql = "SELECT class.namespace, class.key, class.desired, class.running, \
               coalesce(queue.number, 0), queue.oldest FROM exec_class class LEFT JOIN \
               (SELECT class_key, count(*) number, min(not_before) oldest FROM run \
                WHERE phase = 'queued' AND ready = 1 GROUP BY class_key) queue \
               ON queue.class_key = class.key ORDER BY 5 DESC, class.running DESC, class.key LIMIT ?1";
    let rows: Vec<(String, String, u64, u64, u64, Option<Timestamp>)> =
        tx.all(sql, params![CLASSES_MAX])?;
    let class = |(namespace, key, desired, running, count, oldest)| ClassCensus {
        namespace,
        key,
        desired,
        running,
        queued: Waiting { count, oldest },
    };
    Ok(rows.into_iter().map(class).collect())
}
