//! The durable log for those who stream it: of one run, of a task, of a session, of a namespace, of everybody.
//!
//! A page is cheap however deep it is: where to go on is found by index, events are read with the texts of their messages in
//! one query for each run, and texts are passed on as they are stored. Its size is bounded in events and in bytes.

pub mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use self::rows::{Amount, LogRange, LogRow, LoggedRun};
use crate::table::state::meta;
use crate::table::work::run_event;
use crate::table::work::session::{self, SessionRef};
use crate::{Store, Tx, load_body};
use provost_core::id::name::Namespace;
use provost_core::{DurableEvent, DurableEventKind, RunId, TaskId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::query::QueryError;
use crate::query::task::find_task;
use crate::table::work::stored_message;

/// The most events of one page.
pub const LOG_PAGE_MAX: u64 = 5000;
/// Texts of one page, in bytes; one event is always in it.
const PAGE_BYTES: usize = 8 << 20;
/// Positions that one page of a namespace looks at: most of them may be of others.
const WINDOW: u64 = 20_000;

/// One durable event, with what it names put in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The position in the whole log; it rises in the order of commits.
    pub pos: u64,
    /// The run.
    pub run: RunId,
    /// The number in its run: from one, without a gap.
    pub seq: u64,
    /// The epoch that wrote it.
    pub epoch: u64,
    /// The attempt that wrote it; zero before the first.
    pub attempt_no: u64,
    /// What happened.
    pub kind: String,
    /// When.
    pub at: Timestamp,
    /// More about it, as JSON.
    pub body: Option<String>,
    /// The message it is about, as JSON.
    pub message: Option<String>,
    /// The result of the tool call it is about, as JSON.
    pub result: Option<String>,
    /// Which agent of which call it happened to, if the run is below another one.
    pub below: Option<Arc<Below>>,
}

/// What a run is to the run above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    /// The agent, with the agents above it.
    pub agent: String,
    /// The call that started it.
    pub call_id: String,
}

/// A part of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogPage {
    /// Events, in order.
    pub entries: Vec<LogEntry>,
    /// Where to go on: a position, or a number if it is the log of one run. It may have moved on without any event.
    pub next: u64,
    /// True if more can be read at once.
    pub more: bool,
}

/// What the log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// Rises with each restore: a position of another generation means nothing here.
    pub generation: u64,
    /// Up to this position events may have been removed because they were old: whoever reads on from before it may have
    /// missed some. Reading from the very beginning is fine.
    pub floor: u64,
    /// The position of the last event; zero if there is none.
    pub last: u64,
}

/// Where a run belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlace {
    /// The tenancy boundary.
    pub namespace: String,
    /// Its task.
    pub task: TaskId,
    /// Its session.
    pub session: String,
    /// The tasks above its own with their sessions, nearest first: whoever watches those sees it, too.
    pub above: Vec<(TaskId, String)>,
}

/// The generation of the log: a cursor of another one is stale.
pub async fn generation(store: &Store) -> Result<u64, QueryError> {
    store.read(|tx| Ok::<_, QueryError>(meta::generation(tx)?)).await
}

/// What the log holds.
pub async fn bounds(store: &Store) -> Result<LogBounds, QueryError> {
    let read = store.read(|tx| {
        let generation = meta::generation(tx)?;
        let (floor, last) = (meta::log_floor(tx)?, run_event::last_pos(tx)?);
        Ok::<_, QueryError>(LogBounds { generation, floor, last })
    });
    read.await
}

/// The events of all namespaces after a position.
pub async fn tail(store: &Store, after: u64, limit: u64) -> Result<LogPage, QueryError> {
    let amount = amount(limit);
    let read = store.read(move |tx| {
        let rows = rows::tail(tx, after, amount)?;
        let full = is_full(&rows, amount);
        page(tx, rows, after, full)
    });
    read.await
}

/// The events of a run after a number. Here the page goes on at a number, too.
pub async fn of_run(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let (namespace, amount) = (namespace.clone(), amount(limit));
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        let rows = rows::of_run(tx, run, LogRange { after, last: u64::MAX }, amount)?;
        let full = is_full(&rows, amount);
        let mut page = page(tx, rows, after, full)?;
        page.next = page.entries.last().map_or(after, |entry| entry.seq);
        Ok(page)
    });
    read.await
}

/// The events of all runs of a task after a position.
pub async fn of_task(
    store: &Store,
    namespace: &Namespace,
    task: TaskId,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let (namespace, amount) = (namespace.clone(), amount(limit));
    let read = store.read(move |tx| {
        find_task(tx, &namespace, task)?;
        let runs = rows::runs_of_task(tx, task, after)?;
        merged(tx, runs, after, amount)
    });
    read.await
}

/// The events of all runs of a session after a position.
pub async fn of_session(
    store: &Store,
    namespace: &Namespace,
    session: &str,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let (namespace, session, amount) = (namespace.clone(), session.to_owned(), amount(limit));
    let read = store.read(move |tx| {
        if session::get(tx, namespace.as_str(), &session)?.is_none() {
            return Err(QueryError::not_found("session", &session));
        }
        let session = SessionRef { namespace: namespace.as_str(), id: &session };
        let runs = rows::runs_of_session(tx, session, after)?;
        merged(tx, runs, after, amount)
    });
    read.await
}

/// The events of all runs of a namespace after a position. Where others write most of the log, a page may be empty and
/// there may be more all the same.
pub async fn of_namespace(
    store: &Store,
    namespace: &Namespace,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| namespace_page(tx, namespace.as_str(), after, limit)).await
}

/// The number of the oldest event of a run that is kept: whoever reads on from before has missed some.
pub async fn first_kept(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
) -> Result<Option<u64>, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        Ok(run_event::first_kept(tx, run)?)
    });
    read.await
}

/// Where a run belongs.
pub async fn place_of(store: &Store, run: RunId) -> Result<Option<RunPlace>, QueryError> {
    Ok(places_of(store, vec![run]).await?.remove(&run))
}

/// Where runs belong; those that do not exist are not in it.
pub async fn places_of(
    store: &Store,
    runs: Vec<RunId>,
) -> Result<HashMap<RunId, RunPlace>, QueryError> {
    let read = store.read(move |tx| {
        let mut places = HashMap::with_capacity(runs.len());
        for run in runs {
            if let Some(place) = place_in(tx, run)? {
                places.insert(run, place);
            }
        }
        Ok(places)
    });
    read.await
}

/// The events of a namespace after a position.
pub fn namespace_page(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: u64,
    limit: u64,
) -> Result<LogPage, QueryError> {
    let amount = amount(limit);
    let end = run_event::last_pos(tx)?;
    let last = end.min(after.saturating_add(WINDOW));
    let rows = rows::of_namespace(tx, namespace, LogRange { after, last }, amount)?;
    let full = is_full(&rows, amount);
    let mut page = page(tx, rows, after, full)?;
    if !page.more {
        page.next = after.max(last);
        page.more = last < end;
    }
    Ok(page)
}

fn amount(limit: u64) -> Amount {
    Amount { events: limit.clamp(1, LOG_PAGE_MAX), bytes: PAGE_BYTES }
}

/// True if there may be more than these rows.
fn is_full(rows: &[LogRow], amount: Amount) -> bool {
    let bytes: usize = rows.iter().map(LogRow::bytes).sum();
    rows.len() as u64 >= amount.events || bytes >= amount.bytes
}

/// Where a run belongs.
pub fn place_in(tx: &mut Tx<'_>, run: RunId) -> Result<Option<RunPlace>, QueryError> {
    let place = rows::place(tx, run)?;
    let Some((namespace, task, session)) = place else { return Ok(None) };
    let above = rows::above(tx, task)?;
    Ok(Some(RunPlace { namespace, task, session, above }))
}

/// The tasks above a task with their sessions, nearest first.
pub fn ancestors(tx: &mut Tx<'_>, task: TaskId) -> Result<Vec<(TaskId, String)>, QueryError> {
    Ok(rows::above(tx, task)?)
}

/// An error unless the run belongs to the namespace.
pub fn check_run(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    run: RunId,
) -> Result<RunPlace, QueryError> {
    let place = place_in(tx, run)?.filter(|place| place.namespace == namespace.as_str());
    place.ok_or_else(|| QueryError::not_found("run", run))
}

/// A page of the events of several runs: first only their positions are merged, then each run is read once, as far as it
/// belongs to the page.
fn merged(
    tx: &mut Tx<'_>,
    mut runs: Vec<LoggedRun>,
    after: u64,
    amount: Amount,
) -> Result<LogPage, QueryError> {
    runs.sort_unstable_by_key(|run| run.first_pos);
    let limit = usize::try_from(amount.events).unwrap_or(usize::MAX);
    // Position, place of the run, number.
    let mut found: Vec<(u64, usize, u64)> = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        if found.len() >= limit && found.last().is_some_and(|last| last.0 < run.first_pos) {
            break;
        }
        let from = match run.first_pos > after {
            true => run.first_seq,
            false => rows::first_after(tx, run, after)?,
        };
        let positions = rows::positions(tx, run.id, from, amount.events)?;
        found.extend(positions.into_iter().map(|(pos, seq)| (pos, place, seq)));
        if found.len() >= limit {
            found.sort_unstable();
            found.truncate(limit);
        }
    }
    let full = found.len() >= limit;
    let mut parts: HashMap<usize, (u64, u64)> = HashMap::new();
    for (_, place, seq) in found {
        let part = parts.entry(place).or_insert((seq, seq));
        *part = (part.0.min(seq), part.1.max(seq));
    }
    let (rows, cut) = read_parts(tx, &runs, parts, amount)?;
    page(tx, rows, after, full || cut)
}

/// Reads parts of runs, in the order of the log. Where one had to be cut because it holds too much text, nothing after that
/// is told: the next page goes on there.
fn read_parts(
    tx: &mut Tx<'_>,
    runs: &[LoggedRun],
    parts: HashMap<usize, (u64, u64)>,
    amount: Amount,
) -> Result<(Vec<LogRow>, bool), QueryError> {
    let mut rows = Vec::new();
    let mut end: Option<u64> = None;
    for (place, (first, last)) in parts {
        let range = LogRange { after: first - 1, last };
        let part = rows::of_run(tx, runs[place].id, range, amount)?;
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

/// Rows with everything put in that they name, as far as a page goes.
fn page(tx: &mut Tx<'_>, rows: Vec<LogRow>, after: u64, full: bool) -> Result<LogPage, QueryError> {
    let mut page = LogPage { entries: Vec::with_capacity(rows.len()), next: after, more: full };
    let mut bytes = 0;
    let mut known: HashMap<RunId, Option<Arc<Below>>> = HashMap::new();
    for row in rows {
        if bytes >= PAGE_BYTES {
            page.more = true;
            break;
        }
        let mut entry = entry(tx, row)?;
        entry.below = match known.get(&entry.run) {
            Some(below) => below.clone(),
            None => known.entry(entry.run).or_insert(below(tx, entry.run)?).clone(),
        };
        let texts = [&entry.body, &entry.message, &entry.result];
        bytes += texts.into_iter().flatten().map(String::len).sum::<usize>();
        page.next = entry.pos;
        page.entries.push(entry);
    }
    Ok(page)
}

fn entry(tx: &mut Tx<'_>, row: LogRow) -> Result<LogEntry, QueryError> {
    let body = load_body(tx, row.body, row.blob.as_deref())?;
    let message = load_body(tx, row.message, row.message_blob.as_deref())?;
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
        below: None,
    })
}

/// The part of `run.spawn` that names the agent and the call of a child run.
#[derive(Deserialize)]
struct SpawnTerms {
    birth: Option<ChildOrigin>,
}

#[derive(Deserialize)]
struct ChildOrigin {
    above: String,
    agent: String,
    call_id: String,
}

/// The agent and the call of a child run.
fn below(tx: &mut Tx<'_>, run: RunId) -> Result<Option<Arc<Below>>, QueryError> {
    let Some(spawned) = rows::spawned(tx, run)? else { return Ok(None) };
    let terms: SpawnTerms = serde_json::from_str(&spawned)?;
    Ok(terms.birth.map(|origin| {
        let agent = format!("{}/{}", origin.above, origin.agent);
        Arc::new(Below { agent, call_id: origin.call_id })
    }))
}

#[derive(Deserialize)]
struct Held<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The result that the step of an event holds, as it is stored.
fn result_of(
    tx: &mut Tx<'_>,
    run: RunId,
    event: DurableEvent,
) -> Result<Option<String>, QueryError> {
    let DurableEvent::ToolFinished(finished) = event else { return Ok(None) };
    let Some(text) = rows::step_body(tx, run, finished.step)? else { return Ok(None) };
    let held: Held<'_> = serde_json::from_str(&text)?;
    Ok(Some(held.result.get().to_owned()))
}
