//! Pages of the durable event log: of a run, a task, a session, a namespace or all namespaces.
//!
//! The cost of a page does not depend on its position. An index finds the start, one query per run reads the events
//! with the texts of their messages, and texts are not parsed. The number of events and of bytes in a page is
//! limited.

pub mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use self::rows::{EventLogRow, LogRange, PageLimit, RunEventRange};
use crate::table::state::meta;
use crate::table::work::run_event;
use crate::table::work::session::{self, SessionRef};
use crate::{Store, Tx, load_text};
use provost_core::id::name::Namespace;
use provost_core::{DurableEvent, DurableEventKind, RunId, TaskId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::query::QueryError;
use crate::query::task::find_task;
use crate::table::work::stored_message;

/// Maximum number of events in one page.
pub const LOG_PAGE_MAX: u64 = 5000;
/// Maximum size of the texts of a page, in bytes. A page contains at least one event.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// Maximum number of log positions that a page of a namespace scans. Most of them may belong to other namespaces.
const SCAN_MAX: u64 = 20_000;

/// A durable event with its message and tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Position in the whole log. Positions rise in commit order.
    pub pos: u64,
    /// The run.
    pub run: RunId,
    /// Sequence number within the run, starting at 1 and without gaps.
    pub seq: u64,
    /// Epoch that wrote the event.
    pub epoch: u64,
    /// Attempt that wrote the event; 0 before the first attempt.
    pub attempt_no: u64,
    /// Kind of the event.
    pub kind: String,
    /// Time of the event.
    pub at: Timestamp,
    /// Data of the event, as JSON.
    pub body: Option<String>,
    /// Message of the event, as JSON.
    pub message: Option<String>,
    /// Result of the tool call of the event, as JSON.
    pub result: Option<String>,
    /// Agent and call of a child run; `None` for other runs.
    pub child: Option<Arc<ChildRunLabel>>,
}

/// Agent and call of a child run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRunLabel {
    /// Path of the agent, including its ancestors.
    pub agent: String,
    /// Tool call that spawned the run.
    pub call_id: String,
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPage {
    /// The events, in order.
    pub entries: Vec<LogEntry>,
    /// Start of the next page: a log position, or a sequence number in the log of one run. It can advance even if the
    /// page is empty.
    pub next: u64,
    /// True if the next page can be read immediately.
    pub has_more: bool,
}

/// Bounds of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// Generation of the log. Each restore raises it, which invalidates all earlier positions.
    pub generation: u64,
    /// Position up to which retention may have removed events. A reader that continues from an earlier position may
    /// miss events, except at position 0.
    pub floor: u64,
    /// Position of the last event; 0 if the log is empty.
    pub last: u64,
}

/// Namespace, task and session of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunScope {
    /// Namespace of the run.
    pub namespace: String,
    /// The task.
    pub task: TaskId,
    /// The session.
    pub session: String,
    /// Ancestors of the task with their sessions, nearest first. Their logs contain the events of the run too.
    pub ancestors: Vec<(TaskId, String)>,
}

/// Returns the generation of the log. A cursor of another generation is invalid.
pub async fn generation(store: &Store) -> Result<u64, QueryError> {
    store.read(|tx| Ok::<_, QueryError>(meta::generation(tx)?)).await
}

/// Returns the bounds of the log.
pub async fn bounds(store: &Store) -> Result<LogBounds, QueryError> {
    let read = store.read(|tx| {
        let generation = meta::generation(tx)?;
        let (floor, last) = (meta::log_floor(tx)?, run_event::last_pos(tx)?);
        Ok::<_, QueryError>(LogBounds { generation, floor, last })
    });
    read.await
}

/// Returns the events of all namespaces after a position.
pub async fn tail(store: &Store, after: u64, limit: u64) -> Result<LogPage, QueryError> {
    let page_limit = page_limit(limit);
    let read = store.read(move |tx| {
        let rows = rows::tail(tx, after, page_limit)?;
        let full = is_full(&rows, page_limit);
        page(tx, rows, after, full)
    });
    read.await
}

/// Returns the events of a run after a sequence number. The next page starts at a sequence number too. Fails if the run
/// does not exist.
pub async fn of_run(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let (namespace, page_limit) = (namespace.clone(), page_limit(limit));
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        let rows = rows::of_run(tx, run, LogRange { after, last: u64::MAX }, page_limit)?;
        let full = is_full(&rows, page_limit);
        let mut page = page(tx, rows, after, full)?;
        page.next = page.entries.last().map_or(after, |entry| entry.seq);
        Ok(page)
    });
    read.await
}

/// Returns the events of all runs of a task and its descendants after a position. Fails if the task does not exist.
pub async fn of_task(
    store: &Store,
    namespace: &Namespace,
    task: TaskId,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let (namespace, page_limit) = (namespace.clone(), page_limit(limit));
    let read = store.read(move |tx| {
        find_task(tx, &namespace, task)?;
        let runs = rows::runs_of_task(tx, task, after)?;
        merge_runs(tx, runs, after, page_limit)
    });
    read.await
}

/// Returns the events of all runs of a session and their descendants after a position. Fails if the session does not
/// exist.
pub async fn of_session(
    store: &Store,
    namespace: &Namespace,
    session: &str,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let (namespace, session, page_limit) =
        (namespace.clone(), session.to_owned(), page_limit(limit));
    let read = store.read(move |tx| {
        if session::get(tx, namespace.as_str(), &session)?.is_none() {
            return Err(QueryError::not_found("session", &session));
        }
        let session = SessionRef { namespace: namespace.as_str(), id: &session };
        let runs = rows::runs_of_session(tx, session, after)?;
        merge_runs(tx, runs, after, page_limit)
    });
    read.await
}

/// Returns the events of all runs of a namespace after a position. If other namespaces write most of the log, a page
/// can be empty although more events follow.
pub async fn of_namespace(
    store: &Store,
    namespace: &Namespace,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| namespace_page(tx, namespace.as_str(), after, limit)).await
}

/// Returns the sequence number of the oldest event of a run that retention has not removed. `None` if the run has no
/// events. Fails if the namespace has no such run.
pub async fn first_retained(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
) -> Result<Option<u64>, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        Ok(run_event::first_retained(tx, run)?)
    });
    read.await
}

/// Returns the scope of a run; `None` if the run does not exist.
pub async fn run_scope(store: &Store, run: RunId) -> Result<Option<RunScope>, QueryError> {
    Ok(run_scopes(store, vec![run]).await?.remove(&run))
}

/// Returns the scopes of runs. The map has no entry for runs that do not exist.
pub async fn run_scopes(
    store: &Store,
    runs: Vec<RunId>,
) -> Result<HashMap<RunId, RunScope>, QueryError> {
    let read = store.read(move |tx| {
        let mut scopes = HashMap::with_capacity(runs.len());
        for run in runs {
            if let Some(scope) = run_scope_in(tx, run)? {
                scopes.insert(run, scope);
            }
        }
        Ok(scopes)
    });
    read.await
}

/// Returns the events of a namespace after a position.
pub fn namespace_page(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let page_limit = page_limit(limit);
    let end = run_event::last_pos(tx)?;
    let last = end.min(after.saturating_add(SCAN_MAX));
    let rows = rows::of_namespace(tx, namespace, LogRange { after, last }, page_limit)?;
    let full = is_full(&rows, page_limit);
    let mut page = page(tx, rows, after, full)?;
    if !page.has_more {
        page.next = after.max(last);
        page.has_more = last < end;
    }
    Ok(page)
}

/// Returns the limits of a page: `limit` events within the bounds, and the maximum of bytes.
fn page_limit(limit: u64) -> PageLimit {
    PageLimit { events: limit.clamp(1, LOG_PAGE_MAX), bytes: PAGE_BYTES_MAX }
}

/// Returns true if more rows may follow.
fn is_full(rows: &[EventLogRow], page_limit: PageLimit) -> bool {
    let bytes: usize = rows.iter().map(EventLogRow::bytes).sum();
    rows.len() as u64 >= page_limit.events || bytes >= page_limit.bytes
}

/// Returns the scope of a run; `None` if the run does not exist.
pub fn run_scope_in(tx: &mut Tx<'_>, run: RunId) -> Result<Option<RunScope>, QueryError> {
    let scope = rows::scope(tx, run)?;
    let Some((namespace, task, session)) = scope else { return Ok(None) };
    let ancestors = rows::ancestors(tx, task)?;
    Ok(Some(RunScope { namespace, task, session, ancestors }))
}

/// Returns the ancestors of a task with their sessions, nearest first.
pub fn ancestors(tx: &mut Tx<'_>, task: TaskId) -> Result<Vec<(TaskId, String)>, QueryError> {
    Ok(rows::ancestors(tx, task)?)
}

/// Returns the scope of a run. Fails if the run does not belong to the namespace.
pub fn check_run(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    run: RunId,
) -> Result<RunScope, QueryError> {
    let scope = run_scope_in(tx, run)?.filter(|scope| scope.namespace == namespace.as_str());
    scope.ok_or_else(|| QueryError::not_found("run", run))
}

/// Returns a page of the events of several runs in log order. First merges their positions, then reads the part of
/// each run that belongs to the page.
fn merge_runs(
    tx: &mut Tx<'_>,
    mut runs: Vec<RunEventRange>,
    after: u64,
    page_limit: PageLimit,
) -> Result<LogPage, QueryError> {
    runs.sort_unstable_by_key(|run| run.first_pos);
    let limit = usize::try_from(page_limit.events).unwrap_or(usize::MAX);
    // Log position, index of the run, sequence number.
    let mut found: Vec<(u64, usize, u64)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        if found.len() >= limit && found.last().is_some_and(|last| last.0 < run.first_pos) {
            break;
        }
        let from = match run.first_pos > after {
            true => run.first_seq,
            false => rows::first_after(tx, run, after)?,
        };
        let positions = rows::positions(tx, run.id, from, page_limit.events)?;
        found.extend(positions.into_iter().map(|(pos, seq)| (pos, index, seq)));
        if found.len() >= limit {
            found.sort_unstable();
            found.truncate(limit);
        }
    }
    let full = found.len() >= limit;
    let mut parts: HashMap<usize, (u64, u64)> = HashMap::new();
    for (_, index, seq) in found {
        let part = parts.entry(index).or_insert((seq, seq));
        *part = (part.0.min(seq), part.1.max(seq));
    }
    let (rows, cut) = read_parts(tx, &runs, parts, page_limit)?;
    page(tx, rows, after, full || cut)
}

/// Reads parts of runs in log order. If the text of a part exceeds the page, the page ends there. Returns true as the
/// second value in this case.
fn read_parts(
    tx: &mut Tx<'_>,
    runs: &[RunEventRange],
    parts: HashMap<usize, (u64, u64)>,
    page_limit: PageLimit,
) -> Result<(Vec<EventLogRow>, bool), QueryError> {
    let mut rows = Vec::new();
    let mut end: Option<u64> = None;
    for (index, (first, last)) in parts {
        let range = LogRange { after: first - 1, last };
        let part = rows::of_run(tx, runs[index].id, range, page_limit)?;
        if let Some(cut) = part.last().filter(|row| row.seq < last) {
            end = Some(end.map_or(cut.pos, |end| end.min(cut.pos)));
        }
        rows.extend(part);
    }
    rows.sort_unstable_by_key(|row| row.pos);
    if let Some(end) = end {
        rows.retain(|row| row.pos <= end);
    }
    Ok((rows, end.is_some()))
}

/// Loads the texts of the rows until the page is full, and returns the cursor of the next page.
fn page(
    tx: &mut Tx<'_>,
    rows: Vec<EventLogRow>,
    after: u64,
    is_full: bool,
) -> Result<LogPage, QueryError> {
    let mut page =
        LogPage { entries: Vec::with_capacity(rows.len()), next: after, has_more: is_full };
    let mut bytes = 0;
    let mut labels: HashMap<RunId, Option<Arc<ChildRunLabel>>> = HashMap::new();
    for row in rows {
        if bytes >= PAGE_BYTES_MAX {
            page.has_more = true;
            break;
        }
        let mut entry = entry(tx, row)?;
        entry.child = match labels.get(&entry.run) {
            Some(label) => label.clone(),
            None => labels.entry(entry.run).or_insert(child_label(tx, entry.run)?).clone(),
        };
        let texts = [&entry.body, &entry.message, &entry.result];
        bytes += texts.into_iter().flatten().map(String::len).sum::<usize>();
        page.next = entry.pos;
        page.entries.push(entry);
    }
    Ok(page)
}

/// Loads the texts of an event: its body, its message and the result of its tool call.
fn entry(tx: &mut Tx<'_>, row: EventLogRow) -> Result<LogEntry, QueryError> {
    let body = load_text(tx, row.body, row.blob.as_deref())?;
    let message = load_text(tx, row.message, row.message_blob.as_deref())?;
    let message = match message {
        Some(text) if stored_message::names_results(&text) => {
            Some(serde_json::to_string(&*stored_message::read(tx, &text)?)?)
        }
        message => message,
    };
    let has_result = DurableEventKind::from_name(&row.kind) == Some(DurableEventKind::ToolFinished);
    let result = match body.as_deref().filter(|_| has_result) {
        Some(body) => result_of(tx, row.run_id, DurableEvent::parse(&row.kind, body)?)?,
        None => None,
    };
    Ok(LogEntry {
        pos: row.pos,
        run: row.run_id,
        seq: row.seq,
        epoch: row.epoch,
        attempt_no: row.attempt_no,
        kind: row.kind,
        at: row.at,
        body,
        message,
        result,
        child: None,
    })
}

/// The part of `run.spawn` that names the agent and the call of a child run.
#[derive(Deserialize)]
struct StoredSpawnOptions {
    birth: Option<ChildOrigin>,
}

/// Agent and call that spawned a child run, as stored.
#[derive(Deserialize)]
struct ChildOrigin {
    above: String,
    agent: String,
    call_id: String,
}

/// Returns the agent and the call of a child run; `None` for other runs.
fn child_label(tx: &mut Tx<'_>, run: RunId) -> Result<Option<Arc<ChildRunLabel>>, QueryError> {
    let Some(spawn) = rows::spawn_options(tx, run)? else { return Ok(None) };
    let options: StoredSpawnOptions = serde_json::from_str(&spawn)?;
    Ok(options.birth.map(|origin| {
        let agent = format!("{}/{}", origin.above, origin.agent);
        Arc::new(ChildRunLabel { agent, call_id: origin.call_id })
    }))
}

/// The part of a step's body with the result of its call.
#[derive(Deserialize)]
struct StoredToolResult<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

/// Returns the stored result of the tool call of an event. `None` if the call has not finished.
fn result_of(
    tx: &mut Tx<'_>,
    run: RunId,
    event: DurableEvent,
) -> Result<Option<String>, QueryError> {
    let DurableEvent::ToolFinished(finished) = event else { return Ok(None) };
    let Some(text) = rows::step_body(tx, run, finished.step)? else { return Ok(None) };
    let stored: StoredToolResult<'_> = serde_json::from_str(&text)?;
    Ok(Some(stored.result.get().to_owned()))
}
