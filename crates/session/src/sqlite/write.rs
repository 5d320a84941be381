//! Changing sessions: one thread with one connection, one transaction for each change.

use std::sync::Arc;
use std::thread;

use crate::SessionError;
use provost_core::{Message, Timestamp};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use tokio::sync::{mpsc, oneshot};

use super::fault::{ALL, check_size, fault, stopped};
use super::read::{self, Head};
use super::sql::Sql;

/// Changes that wait for the writer; more wait where they are made.
const QUEUE_MAX: usize = 256;
/// Bytes of one message as JSON: room for the pictures and files of a whole turn.
const MESSAGE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of the messages of one change as JSON.
const CHANGE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Sessions that one transaction forgets: others get their turn in between.
const FORGET_MAX: i64 = 200;

type Job = Box<dyn FnOnce(&mut Connection, &Sql) + Send>;

/// The way to the thread that writes. It ends when the last of its clones is gone.
#[derive(Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn start(mut connection: Connection, sql: Arc<Sql>) -> std::io::Result<Self> {
        let (jobs, mut queue) = mpsc::channel::<Job>(QUEUE_MAX);
        thread::Builder::new().name("provost-sessions".to_owned()).spawn(move || {
            while let Some(job) = queue.blocking_recv() {
                job(&mut connection, &sql);
            }
        })?;
        Ok(Self { jobs })
    }

    /// Makes a change, all of it or nothing. One that nobody waits for any more when its turn comes is not made.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&Transaction<'_>, &Sql) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        let id = id.to_owned();
        let job: Job = Box::new(move |connection, sql| {
            if !reply.is_closed() {
                drop(reply.send(transact(connection, sql, &id, work)));
            }
        });
        self.jobs.send(job).await.map_err(|error| stopped(error.to_string()))?;
        answer.await.map_err(stopped)?
    }
}

fn transact<T>(
    connection: &mut Connection,
    sql: &Sql,
    id: &str,
    work: impl FnOnce(&Transaction<'_>, &Sql) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let failed = |error| fault(id, error);
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let tx = begun.map_err(failed)?;
    let made = work(&tx, sql)?;
    tx.commit().map_err(failed)?;
    Ok(made)
}

/// A change with its messages as they are stored.
pub(super) struct Encoded {
    base: u64,
    pop: usize,
    add: Vec<String>,
}

impl Encoded {
    pub(super) fn new(
        id: &str,
        base: u64,
        pop: usize,
        add: &[Arc<Message>],
    ) -> Result<Self, SessionError> {
        let mut bytes = 0;
        let mut bodies = Vec::with_capacity(add.len());
        for message in add {
            let body = serde_json::to_string(message).map_err(|error| SessionError::Storage {
                message: "a message cannot be written as JSON".to_owned(),
                source: error.into(),
            })?;
            check_size(id, "a message", body.len(), MESSAGE_BYTES_MAX)?;
            bytes += body.len();
            check_size(id, "a change", bytes, CHANGE_BYTES_MAX)?;
            bodies.push(body);
        }
        Ok(Self { base, pop, add: bodies })
    }
}

pub(super) fn commit(
    tx: &Transaction<'_>,
    sql: &Sql,
    id: &str,
    change: &Encoded,
    now: Timestamp,
) -> Result<u64, SessionError> {
    let failed = |error| fault(id, error);
    let head = read::head(tx, sql, id)?;
    let found = head.as_ref().map_or(0, |head| head.revision);
    if change.base != found {
        return Err(conflict(id, change.base, found));
    }
    let kept = head.as_ref().map_or(0, |head| head.messages.saturating_sub(change.pop));
    let messages = (kept + change.add.len()) as i64;
    let key = match head {
        None => insert(tx, sql, id, NewSession { messages, metadata: "{}" }, now)?,
        Some(Head { key, .. }) => {
            let revision = (found + 1) as i64;
            execute(tx, &sql.update_session, params![key, revision, messages, now.as_millis()])
                .map_err(failed)?;
            if change.pop > 0 {
                execute(tx, &sql.delete_messages, params![key, kept as i64]).map_err(failed)?;
            }
            key
        }
    };
    for (seq, body) in (kept as i64..).zip(&change.add) {
        execute(tx, &sql.insert_message, params![key, seq, body]).map_err(failed)?;
    }
    Ok(found + 1)
}

pub(super) fn delete(tx: &Transaction<'_>, sql: &Sql, id: &str) -> Result<bool, SessionError> {
    let Some(head) = read::head(tx, sql, id)? else { return Ok(false) };
    delete_key(tx, sql, head.key).map_err(|error| fault(id, error))?;
    Ok(true)
}

pub(super) fn set_metadata(
    tx: &Transaction<'_>,
    sql: &Sql,
    id: &str,
    metadata: &str,
) -> Result<bool, SessionError> {
    let changed = execute(tx, &sql.set_metadata, params![id, metadata]);
    Ok(changed.map_err(|error| fault(id, error))? > 0)
}

/// A copy of a session under a new id.
pub(super) struct SessionCopy {
    pub(super) from: String,
    pub(super) to: String,
    /// The number of the oldest messages to copy.
    pub(super) messages_max: usize,
}

/// Copies the first messages of a session to a new one; false if there is no such session.
pub(super) fn fork(
    tx: &Transaction<'_>,
    sql: &Sql,
    copy: &SessionCopy,
    now: Timestamp,
) -> Result<bool, SessionError> {
    let SessionCopy { from, to, messages_max } = copy;
    let Some(source) = read::head(tx, sql, from)? else { return Ok(false) };
    if let Some(taken) = read::head(tx, sql, to)? {
        return Err(conflict(to, 0, taken.revision));
    }
    let messages = source.messages.min(*messages_max) as i64;
    let key = insert(tx, sql, to, NewSession { messages, metadata: &source.metadata }, now)?;
    execute(tx, &sql.copy_messages, params![source.key, key, messages])
        .map_err(|error| fault(to, error))?;
    Ok(true)
}

/// Deletes some of the sessions that have not changed since a moment, and says how many; 0 if none is left.
pub(super) fn forget(
    tx: &Transaction<'_>,
    sql: &Sql,
    unused_since: Timestamp,
) -> Result<u64, SessionError> {
    let forget = || {
        let mut statement = tx.prepare_cached(&sql.unused)?;
        let keys = statement
            .query_map(params![unused_since.as_millis(), FORGET_MAX], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        for key in &keys {
            delete_key(tx, sql, *key)?;
        }
        Ok(keys.len() as u64)
    };
    forget().map_err(|error| fault(ALL, error))
}

struct NewSession<'a> {
    messages: i64,
    /// As JSON.
    metadata: &'a str,
}

fn insert(
    tx: &Transaction<'_>,
    sql: &Sql,
    id: &str,
    new: NewSession<'_>,
    now: Timestamp,
) -> Result<i64, SessionError> {
    let NewSession { messages, metadata } = new;
    let insert = || {
        let mut statement = tx.prepare_cached(&sql.insert_session)?;
        statement.query_row(params![id, messages, metadata, now.as_millis()], |row| row.get(0))
    };
    insert().map_err(|error| fault(id, error))
}

/// The messages go with their session: the reference of their table says so.
fn delete_key(tx: &Transaction<'_>, sql: &Sql, key: i64) -> rusqlite::Result<()> {
    execute(tx, &sql.delete_session, params![key]).map(drop)
}

fn execute(
    tx: &Transaction<'_>,
    sql: &str,
    params: impl rusqlite::Params,
) -> rusqlite::Result<usize> {
    tx.prepare_cached(sql)?.execute(params)
}

fn conflict(id: &str, expected: u64, found: u64) -> SessionError {
    SessionError::Conflict { id: id.to_owned(), expected, found }
}
