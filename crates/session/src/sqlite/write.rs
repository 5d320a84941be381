//! Changing sessions, each time in one transaction.

use std::sync::Arc;

use provost_core::{Message, Timestamp};
use provost_store::Tx;
use provost_store::table::session_file::{MessageCopy, NewSession, SessionHead, SessionTables};

use super::fault::{Fault, check_size};
use super::read::{self, Head};
use crate::SessionError;

/// Bytes of one message as JSON: room for the pictures and files of a whole turn.
const MESSAGE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of the messages of one change as JSON.
const CHANGE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Sessions that one transaction forgets: others get their turn in between.
const FORGET_MAX: i64 = 200;

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
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
    change: &Encoded,
) -> Result<u64, Fault> {
    let head = read::head(tx, tables, id)?;
    let found = head.as_ref().map_or(0, |head| head.revision);
    if change.base != found {
        return Err(conflict(id, change.base, found).into());
    }
    let kept = head.as_ref().map_or(0, |head| head.messages.saturating_sub(change.pop)) as i64;
    let messages = kept + change.add.len() as i64;
    let key = match head {
        None => tables.insert(tx, NewSession { id, messages, metadata: "{}" })?,
        Some(Head { key, metadata, .. }) => {
            let revision = (found + 1) as i64;
            tables.update(tx, &SessionHead { key, revision, messages, metadata })?;
            if change.pop > 0 {
                tables.delete_messages(tx, key, kept)?;
            }
            key
        }
    };
    for (seq, body) in (kept..).zip(&change.add) {
        tables.insert_message(tx, key, seq, body)?;
    }
    Ok(found + 1)
}

pub(super) fn delete(tx: &mut Tx<'_>, tables: &SessionTables, id: &str) -> Result<bool, Fault> {
    let Some(head) = read::head(tx, tables, id)? else { return Ok(false) };
    tables.delete(tx, head.key)?;
    Ok(true)
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
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    copy: &SessionCopy,
) -> Result<bool, Fault> {
    let SessionCopy { from, to, messages_max } = copy;
    let Some(source) = read::head(tx, tables, from)? else { return Ok(false) };
    if let Some(taken) = read::head(tx, tables, to)? {
        return Err(conflict(to, 0, taken.revision).into());
    }
    let messages = source.messages.min(*messages_max) as i64;
    let new = NewSession { id: to, messages, metadata: &source.metadata };
    let key = tables.insert(tx, new)?;
    tables.copy_messages(tx, MessageCopy { from: source.key, to: key, messages })?;
    Ok(true)
}

/// Deletes some of the sessions that have not changed since a moment, and says how many; 0 if none is left.
pub(super) fn forget(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    unused_since: Timestamp,
) -> Result<u64, Fault> {
    let keys = tables.unused_since(tx, unused_since, FORGET_MAX)?;
    for key in &keys {
        tables.delete(tx, *key)?;
    }
    Ok(keys.len() as u64)
}

fn conflict(id: &str, expected: u64, found: u64) -> SessionError {
    SessionError::Conflict { id: id.to_owned(), expected, found }
}
