//! Changes of sessions inside a transaction.

use std::sync::Arc;

use provost_core::{Message, Timestamp};
use provost_store::Tx;
use provost_store::table::session_file::{
    MessageCopy, NewSession, SessionHeaderRow, SessionTables,
};

use super::read::{self, SessionHeader};
use super::transaction_error::{TransactionError, check_size};
use crate::SessionError;

/// Maximum size of a message as JSON, in bytes. It must hold the images and files of a whole turn.
const MESSAGE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Maximum size of the messages of one change as JSON, in bytes.
const CHANGE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Maximum number of sessions that one transaction deletes. Other writers can commit between two transactions.
const DELETE_BATCH_MAX: i64 = 200;

/// A change with its messages encoded as JSON.
pub(super) struct EncodedChange {
    base: u64,
    pop: usize,
    add: Vec<String>,
}

impl EncodedChange {
    /// Encodes the messages of a change. Fails if a message or the change is too large.
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

/// Applies a change and returns the new revision. Creates the session for revision 0. Fails with a conflict if `base`
/// is not the stored revision.
pub(super) fn commit(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
    change: &EncodedChange,
) -> Result<u64, TransactionError> {
    let header = read::header(tx, tables, id)?;
    let found = header.as_ref().map_or(0, |header| header.revision);
    if change.base != found {
        return Err(conflict(id, change.base, found).into());
    }
    let remaining =
        header.as_ref().map_or(0, |header| header.messages.saturating_sub(change.pop)) as i64;
    let messages = remaining + change.add.len() as i64;
    let key = match header {
        None => tables.insert(tx, NewSession { id, messages, metadata: "{}" })?,
        Some(SessionHeader { key, metadata, .. }) => {
            let revision = (found + 1) as i64;
            tables.update(tx, &SessionHeaderRow { key, revision, messages, metadata })?;
            if change.pop > 0 {
                tables.delete_messages(tx, key, remaining)?;
            }
            key
        }
    };
    for (seq, body) in (remaining..).zip(&change.add) {
        tables.insert_message(tx, key, seq, body)?;
    }
    Ok(found + 1)
}

/// Deletes a session with its messages. Returns false if it does not exist.
pub(super) fn delete(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
) -> Result<bool, TransactionError> {
    let Some(header) = read::header(tx, tables, id)? else { return Ok(false) };
    tables.delete(tx, header.key)?;
    Ok(true)
}

/// A copy of a session under a new id.
pub(super) struct SessionCopy {
    pub(super) from: String,
    pub(super) to: String,
    /// Number of messages to copy, starting with the oldest.
    pub(super) messages_max: usize,
}

/// Copies the first messages of a session to a new session. Returns false if the session does not exist.
pub(super) fn fork(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    copy: &SessionCopy,
) -> Result<bool, TransactionError> {
    let SessionCopy { from, to, messages_max } = copy;
    let Some(source) = read::header(tx, tables, from)? else { return Ok(false) };
    if let Some(existing) = read::header(tx, tables, to)? {
        return Err(conflict(to, 0, existing.revision).into());
    }
    let messages = source.messages.min(*messages_max) as i64;
    let new = NewSession { id: to, messages, metadata: &source.metadata };
    let key = tables.insert(tx, new)?;
    tables.copy_messages(tx, MessageCopy { from: source.key, to: key, messages })?;
    Ok(true)
}

/// Deletes a batch of the sessions that have not changed since a point in time. Returns the number of deleted
/// sessions. Call it again until it returns 0.
pub(super) fn delete_inactive(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    inactive_since: Timestamp,
) -> Result<u64, TransactionError> {
    let keys = tables.inactive_since(tx, inactive_since, DELETE_BATCH_MAX)?;
    for key in &keys {
        tables.delete(tx, *key)?;
    }
    Ok(keys.len() as u64)
}

/// Creates the error of a change with a stale base.
fn conflict(id: &str, expected: u64, found: u64) -> SessionError {
    SessionError::Conflict { id: id.to_owned(), expected, found }
}
