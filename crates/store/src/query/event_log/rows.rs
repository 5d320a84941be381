//! Reading the event log in pages: of one run, of several, of everything. Each page is one query, however deep it is.
//!
//! Within a run positions rise with the numbers of its events, so where to go on is found by halving.

use provost_core::{RunId, TaskId, Timestamp};

use crate::table::work::session::SessionRef;
use crate::transaction::text::load_body;
use crate::{FromRow, Row, StoreError, Tx, params};

/// What is read of an event and of the message it is about.
const COLUMNS: &str =
    "e.pos, e.run_id, e.seq, e.epoch, e.attempt_no, e.kind, e.at, e.body, e.blob, m.body, m.blob";
const TABLES: &str = "run_event e LEFT JOIN message m ON m.id = e.message_id";

/// What is known of a run that may have events to read: see [`LoggedRun`].
const RUN_COLUMNS: &str = "r.id,
    (SELECT e.seq FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq LIMIT 1),
    (SELECT e.pos FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq LIMIT 1),
    (SELECT e.seq FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1)";
/// The run has events after a position.
const RUN_GOES_ON: &str =
    "(SELECT e.pos FROM run_event e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1) >";

/// The tasks that begin with those of a first query, and all tasks below them.
fn and_below(first: &str) -> String {
    format!(
        "WITH RECURSIVE below(id) AS (
           {first} UNION ALL SELECT t.id FROM task t JOIN below b ON t.parent_task_id = b.id
         )"
    )
}

/// One event with the text of the message it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// The position in the whole log.
    pub pos: u64,
    /// The run.
    pub run_id: RunId,
    /// Its number in the run.
    pub seq: u64,
    /// The epoch that wrote it.
    pub epoch: u64,
    /// The attempt that wrote it.
    pub attempt_no: u64,
    /// What happened.
    pub kind: String,
    /// When.
    pub at: Timestamp,
    /// More about it as JSON, if it is small.
    pub body: Option<String>,
    /// The blob that holds it, if it is not.
    pub blob: Option<String>,
    /// The message as it is stored, if it is small.
    pub message: Option<String>,
    /// The blob that holds it, if it is not.
    pub message_blob: Option<String>,
}

impl FromRow for LogRow {
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

impl LogRow {
    /// How many bytes of text it holds itself.
    pub fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        length(&self.body) + length(&self.message)
    }
}

/// How much is read at once.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Events.
    pub events: u64,
    /// Bytes of text after which no more events are read.
    pub bytes: usize,
}

/// Numbers or positions of events.
#[derive(Debug, Clone, Copy)]
pub struct LogRange {
    /// The one before the first.
    pub after: u64,
    /// The last one.
    pub last: u64,
}

/// A run that has events after the position that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedRun {
    /// The run.
    pub id: RunId,
    /// The number of its oldest event that is kept.
    pub first_seq: u64,
    /// The position of that event.
    pub first_pos: u64,
    /// The number of its last event.
    pub last_seq: u64,
}

impl FromRow for LoggedRun {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.take()?,
            first_seq: row.take()?,
            first_pos: row.take()?,
            last_seq: row.take()?,
        })
    }
}

/// The events of a run with the numbers of a range, in order.
pub fn of_run(
    tx: &mut Tx<'_>,
    run_id: RunId,
    range: LogRange,
    amount: Amount,
) -> Result<Vec<LogRow>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {TABLES} WHERE e.run_id = ?1 AND e.seq > ?2 AND e.seq <= ?3 ORDER BY e.seq LIMIT ?4"
    );
    let enough = enough(amount.bytes);
    tx.until(&sql, params![run_id, range.after, range.last, amount.events], enough)
}

/// The events of everybody after the position `after`, in order.
pub fn tail(tx: &mut Tx<'_>, after: u64, amount: Amount) -> Result<Vec<LogRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM {TABLES} WHERE e.pos > ?1 ORDER BY e.pos LIMIT ?2");
    tx.until(&sql, params![after, amount.events], enough(amount.bytes))
}

/// The events of a namespace at the positions of a range, in order. All events in between are looked
/// at, so the caller says how many that may be.
pub fn of_namespace(
    tx: &mut Tx<'_>,
    namespace: &str,
    range: LogRange,
    amount: Amount,
) -> Result<Vec<LogRow>, StoreError> {
    // The cross join keeps the order of the log: nothing is sorted.
    let sql = format!(
        "SELECT {COLUMNS} FROM run_event e CROSS JOIN run r ON r.id = e.run_id LEFT JOIN message m ON m.id = e.message_id
          WHERE e.pos > ?2 AND e.pos <= ?3 AND r.namespace = ?1 ORDER BY e.pos LIMIT ?4"
    );
    tx.until(&sql, params![namespace, range.after, range.last, amount.events], enough(amount.bytes))
}

/// The runs of a task, and of all tasks below it, that have events after the position `after`.
pub fn runs_of_task(
    tx: &mut Tx<'_>,
    task_id: TaskId,
    after: u64,
) -> Result<Vec<LoggedRun>, StoreError> {
    let tasks = and_below("SELECT id FROM task WHERE id = ?1");
    let sql = format!(
        "{tasks} SELECT {RUN_COLUMNS} FROM below b CROSS JOIN run r ON r.task_id = b.id WHERE {RUN_GOES_ON} ?2"
    );
    tx.all(&sql, params![task_id, after])
}

/// The runs of a session, and of all tasks below its own, that have events after the position `after`.
pub fn runs_of_session(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    after: u64,
) -> Result<Vec<LoggedRun>, StoreError> {
    let tasks = and_below("SELECT id FROM task WHERE namespace = ?1 AND session_id = ?2");
    let sql = format!(
        "{tasks} SELECT DISTINCT {RUN_COLUMNS} FROM below b CROSS JOIN run r ON r.task_id = b.id
          WHERE {RUN_GOES_ON} ?3"
    );
    tx.all(&sql, params![session.namespace, session.id, after])
}

/// The number of the first event of a run after the position `after`; the run has one.
pub fn first_after(tx: &mut Tx<'_>, run: &LoggedRun, after: u64) -> Result<u64, StoreError> {
    let (mut first, mut last) = (run.first_seq, run.last_seq);
    while first < last {
        let middle = first + (last - first) / 2;
        let sql = "SELECT pos FROM run_event WHERE run_id = ?1 AND seq = ?2";
        let pos: u64 = tx.one(sql, params![run.id, middle])?;
        if pos > after { last = middle } else { first = middle + 1 }
    }
    Ok(first)
}

/// The positions and numbers of the events of a run from the number `from` on.
pub fn positions(
    tx: &mut Tx<'_>,
    run_id: RunId,
    from: u64,
    limit: u64,
) -> Result<Vec<(u64, u64)>, StoreError> {
    tx.all(
        "SELECT pos, seq FROM run_event WHERE run_id = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3",
        params![run_id, from, limit],
    )
}

/// What a step holds, wherever it is stored.
pub fn step_body(tx: &mut Tx<'_>, run_id: RunId, step: u64) -> Result<Option<String>, StoreError> {
    let sql = "SELECT body, blob FROM run_step WHERE run_id = ?1 AND step = ?2";
    let found: Option<(Option<String>, Option<String>)> =
        tx.optional(sql, params![run_id, step])?;
    match found {
        Some((body, blob)) => load_body(tx, body, blob.as_deref()),
        None => Ok(None),
    }
}

/// Where a run belongs: its namespace, its task and its session.
pub fn place(
    tx: &mut Tx<'_>,
    run_id: RunId,
) -> Result<Option<(String, TaskId, String)>, StoreError> {
    tx.optional("SELECT namespace, task_id, session_id FROM run WHERE id = ?1", params![run_id])
}

/// What the runs of this one were started with, as JSON, if another run has started it.
pub fn spawned(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT spawn FROM run WHERE id = ?1 AND spawn IS NOT NULL";
    tx.optional(sql, params![run_id])
}

/// The tasks above a task with their sessions, nearest first.
pub fn above(tx: &mut Tx<'_>, task_id: TaskId) -> Result<Vec<(TaskId, String)>, StoreError> {
    tx.all(
        "WITH RECURSIVE above(id, parent, session, far) AS (
           SELECT id, parent_task_id, session_id, 0 FROM task WHERE id = ?1
           UNION ALL
           SELECT t.id, t.parent_task_id, t.session_id, a.far + 1 FROM task t JOIN above a ON t.id = a.parent
         )
         SELECT id, session FROM above WHERE far > 0 ORDER BY far",
        params![task_id],
    )
}

/// True as soon as so many bytes have been read.
fn enough(bytes: usize) -> impl FnMut(&LogRow) -> bool {
    let mut left = bytes;
    move |row| {
        left = left.saturating_sub(row.bytes());
        left == 0
    }
}
