//! Queries of the event log. Each returns a page with one statement.
//!
//! Within a run, log positions rise with sequence numbers, so a binary search finds the first event after a position.

use provost_core::{RunId, TaskId, Timestamp};

use crate::table::work::session::SessionRef;
use crate::transaction::text::load_text;
use crate::{FromRow, Row, StoreError, Tx, params};

/// Columns of an event and its message.
const COLUMNS: &str =
    "e.pos, e.run_id, e.seq, e.epoch, e.attempt_no, e.kind, e.at, e.body, e.blob, m.body, m.blob";
const TABLES: &str = "run_event e LEFT JOIN message m ON m.id = e.message_id";

/// Columns of [`RunEventRange`].
const RUN_COLUMNS: &str = "r.id,
    (SELECT e.seq FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq LIMIT 1),
    (SELECT e.pos FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq LIMIT 1),
    (SELECT e.seq FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1)";
/// Condition that a run has events after a position.
const HAS_EVENTS_AFTER: &str =
    "(SELECT e.pos FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1) >";

/// Builds a common table expression with the tasks of a query and all their descendants.
fn with_descendants(first: &str) -> String {
    format!(
        "WITH RECURSIVE below(id) AS (
           {first} UNION ALL SELECT t.id FROM task t JOIN below b ON t.parent_task_id = b.id
         )"
    )
}

/// An event with the text of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLogRow {
    /// Position in the whole log.
    pub pos: u64,
    /// The run.
    pub run_id: RunId,
    /// Sequence number within the run.
    pub seq: u64,
    /// Epoch that wrote the event.
    pub epoch: u64,
    /// Attempt that wrote the event.
    pub attempt_no: u64,
    /// Kind of the event.
    pub kind: String,
    /// Time of the event.
    pub at: Timestamp,
    /// Data of the event as JSON, if it is small.
    pub body: Option<String>,
    /// Hash of the blob with the data, if it is large.
    pub blob: Option<String>,
    /// Stored message, if it is small.
    pub message: Option<String>,
    /// Hash of the blob with the message, if it is large.
    pub message_blob: Option<String>,
}

impl FromRow for EventLogRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            pos: row.take()?,
            run_id: row.take()?,
            seq: row.take()?,
            epoch: row.take()?,
            attempt_no: row.take()?,
            kind: row.take()?,
            at: row.take()?,
            body: row.take()?,
            blob: row.take()?,
            message: row.take()?,
            message_blob: row.take()?,
        })
    }
}

impl EventLogRow {
    /// Returns the number of text bytes in the row, without blobs.
    pub fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        length(&self.body) + length(&self.message)
    }
}

/// Limits of one page.
#[derive(Debug, Clone, Copy)]
pub struct PageLimit {
    /// Maximum number of events.
    pub events: u64,
    /// Number of text bytes after which the page ends.
    pub bytes: usize,
}

/// Range of sequence numbers or log positions.
#[derive(Debug, Clone, Copy)]
pub struct LogRange {
    /// Value before the first event.
    pub after: u64,
    /// Value of the last event.
    pub last: u64,
}

/// A run with events after a requested position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEventRange {
    /// The run.
    pub id: RunId,
    /// Sequence number of its oldest event that retention has not removed.
    pub first_seq: u64,
    /// Log position of that event.
    pub first_pos: u64,
    /// Sequence number of its last event.
    pub last_seq: u64,
}

impl FromRow for RunEventRange {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.take()?,
            first_seq: row.take()?,
            first_pos: row.take()?,
            last_seq: row.take()?,
        })
    }
}

/// Returns the events of a run in a range of sequence numbers, in order.
pub fn of_run(
    tx: &mut Tx<'_>,
    run_id: RunId,
    range: LogRange,
    page_limit: PageLimit,
) -> Result<Vec<EventLogRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE e.run_id = ?1 AND e.seq > ?2 AND e.seq <= ?3 ORDER BY e.seq LIMIT ?4"
    );
    let is_full = is_full_after(page_limit.bytes);
    tx.fetch_until(&sql, params![run_id, range.after, range.last, page_limit.events], is_full)
}

/// Returns the events of all namespaces after position `after`, in order.
pub fn tail(
    tx: &mut Tx<'_>,
    after: u64,
    page_limit: PageLimit,
) -> Result<Vec<EventLogRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2");
    tx.fetch_until(&sql, params![after, page_limit.events], is_full_after(page_limit.bytes))
}

/// Returns the events of a namespace in a range of positions, in order. Scans all events of the range, so the caller
/// must limit it.
pub fn of_namespace(
    tx: &mut Tx<'_>,
    namespace: &str,
    range: LogRange,
    page_limit: PageLimit,
) -> Result<Vec<EventLogRow>, StoreError> {
    // The cross join keeps the log order, so no sort is needed.
    let sql = format!(
        "SELECT {COLUMNS} FROM run_event e CROSS JOIN run r ON r.id = e.run_id LEFT JOIN message m ON m.id = e.message_id
          WHERE e.pos > ?2 AND e.pos <= ?3 AND r.namespace = ?1 ORDER BY e.pos LIMIT ?4"
    );
    tx.fetch_until(
        &sql,
        params![namespace, range.after, range.last, page_limit.events],
        is_full_after(page_limit.bytes),
    )
}

/// Returns the runs of a task and its descendants that have events after position `after`.
pub fn runs_of_task(
    tx: &mut Tx<'_>,
    task_id: TaskId,
    after: u64,
) -> Result<Vec<RunEventRange>, StoreError> {
    let tasks = with_descendants("SELECT id FROM task WHERE id = ?1");
    let sql = format!(
        "{tasks} SELECT {RUN_COLUMNS} FROM below b CROSS JOIN run r ON r.task_id = b.id WHERE {HAS_EVENTS_AFTER} ?2"
    );
    tx.fetch_all(&sql, params![task_id, after])
}

/// Returns the runs of a session's tasks and their descendants that have events after position `after`.
pub fn runs_of_session(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    after: u64,
) -> Result<Vec<RunEventRange>, StoreError> {
    let tasks = with_descendants("SELECT id FROM task WHERE namespace = ?1 AND session_id = ?2");
    let sql = format!(
        "{tasks} SELECT DISTINCT {RUN_COLUMNS} FROM below b CROSS JOIN run r ON r.task_id = b.id
          WHERE {HAS_EVENTS_AFTER} ?3"
    );
    tx.fetch_all(&sql, params![session.namespace, session.id, after])
}

/// Returns the sequence number of the first event of a run after position `after`. The run must have such an event.
pub fn first_after(tx: &mut Tx<'_>, run: &RunEventRange, after: u64) -> Result<u64, StoreError> {
    let (mut first, mut last) = (run.first_seq, run.last_seq);
    while first < last {
        let middle = first + (last - first) / 2;
        let sql = "SELECT pos FROM run_event WHERE run_id = ?1 AND seq = ?2";
        let pos: u64 = tx.fetch_one(sql, params![run.id, middle])?;
        if pos > after { last = middle } else { first = middle + 1 }
    }
    Ok(first)
}

/// Returns the positions and sequence numbers of the events of a run, starting at sequence number `from`.
pub fn positions(
    tx: &mut Tx<'_>,
    run_id: RunId,
    from: u64,
    limit: u64,
) -> Result<Vec<(u64, u64)>, StoreError> {
    tx.fetch_all(
        "SELECT pos, seq FROM run_event WHERE run_id = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3",
        params![run_id, from, limit],
    )
}

/// Returns the body of a step, from its row or from a blob. `None` if the step does not exist or has no body.
pub fn step_body(tx: &mut Tx<'_>, run_id: RunId, step: u64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT body, blob FROM run_step WHERE run_id = ?1 AND step = ?2";
    let found: Option<(Option<String>, Option<String>)> =
        tx.fetch_optional(sql, params![run_id, step])?;
    match found {
        Some((body, blob)) => load_text(tx, body, blob.as_deref()),
        None => Ok(None),
    }
}

/// Returns the namespace, the task and the session of a run. `None` if the run does not exist.
pub fn scope(
    tx: &mut Tx<'_>,
    run_id: RunId,
) -> Result<Option<(String, TaskId, String)>, StoreError> {
    tx.fetch_optional(
        "SELECT namespace, task_id, session_id FROM run WHERE id = ?1",
        params![run_id],
    )
}

/// Returns the options with which the parent spawned a run, as JSON; `None` for a run without parent.
pub fn spawn_options(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT spawn FROM run WHERE id = ?1 AND spawn IS NOT NULL";
    tx.fetch_optional(sql, params![run_id])
}

/// Returns the ancestors of a task with their sessions, nearest first.
pub fn ancestors(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Vec<(TaskId, String)>, StoreError> {
    tx.fetch_all(
        "WITH RECURSIVE above(id, parent, session, far) AS (
           SELECT id, parent_task_id, session_id, 0 FROM task WHERE id = ?1
           UNION ALL
           SELECT t.id, t.parent_task_id, t.session_id, a.far + 1 FROM task t JOIN above a ON t.id = a.parent
         )
         SELECT id, session FROM above WHERE far > 0 ORDER BY far",
        params![task_id],
    )
}

/// Returns a function that returns true once it has seen `bytes` bytes of text.
fn is_full_after(bytes: usize) -> impl FnMut(&EventLogRow) -> bool {
    let mut left = bytes;
    move |row| {
        left = left.saturating_sub(row.bytes());
        left == 0
    }
}
