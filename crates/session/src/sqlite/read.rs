//! Reads of sessions inside a transaction.

use std::sync::Arc;

use provost_core::{Message, Timestamp};
use provost_store::Tx;
use provost_store::table::session_file::{SessionRange, SessionSummaryRow, SessionTables};
use serde_json::{Map, Value};

use super::transaction_error::TransactionError;
use super::{SessionCursor, SessionPage};
use crate::{SessionError, SessionInfo, Transcript};

/// A session without its messages.
pub(super) struct SessionHeader {
    pub(super) key: i64,
    pub(super) revision: u64,
    pub(super) messages: usize,
    pub(super) metadata: String,
}

/// Returns the header of a session. `None` if it does not exist. Fails if its numbers are negative.
pub(super) fn header(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
) -> Result<Option<SessionHeader>, TransactionError> {
    let Some(row) = tables.header(tx, id)? else { return Ok(None) };
    match (u64::try_from(row.revision), usize::try_from(row.messages)) {
        (Ok(revision), Ok(messages)) => {
            Ok(Some(SessionHeader { key: row.key, revision, messages, metadata: row.metadata }))
        }
        _ => {
            let problem = format!("it has revision {} and {} messages", row.revision, row.messages);
            Err(corrupt(id, problem).into())
        }
    }
}

/// Returns the newest `limit` messages of a session, oldest first. `None` if it does not exist.
pub(super) fn load(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
    limit: usize,
) -> Result<Option<Transcript>, TransactionError> {
    let Some(header) = header(tx, tables, id)? else { return Ok(None) };
    let first = header.messages.saturating_sub(limit);
    let mut messages = Vec::new();
    for stored in tables.messages(tx, header.key, first as i64)? {
        let position = first + messages.len();
        if stored.seq != position as i64 {
            return Err(corrupt(id, format!("message {position} is missing")).into());
        }
        let message: Message = serde_json::from_str(&stored.body)
            .map_err(|error| corrupt(id, format!("message {position} is no message: {error}")))?;
        messages.push(Arc::new(message));
    }
    if first + messages.len() != header.messages {
        let there = first + messages.len();
        return Err(
            corrupt(id, format!("it has {there} of its {} messages", header.messages)).into()
        );
    }
    Ok(Some(Transcript { messages, revision: header.revision }))
}

/// Returns the metadata of a session. `None` if it does not exist.
pub(super) fn metadata(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
) -> Result<Option<Map<String, Value>>, TransactionError> {
    let Some(header) = header(tx, tables, id)? else { return Ok(None) };
    let parsed = serde_json::from_str(&header.metadata);
    Ok(parsed
        .map(Some)
        .map_err(|error| corrupt(id, format!("its metadata is no object: {error}")))?)
}

/// Returns up to `limit` sessions after a cursor, and the cursor of the next page if there is one.
pub(super) fn page(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    after: Option<&SessionCursor>,
    limit: usize,
) -> Result<SessionPage, TransactionError> {
    let range = SessionRange {
        updated_at: after.map_or(Timestamp::from_millis(i64::MAX), |cursor| cursor.updated_at),
        id: after.map_or("", |cursor| cursor.id.as_str()),
        // One additional session shows that another page exists.
        limit: limit.saturating_add(1),
    };
    let info = |row: SessionSummaryRow| SessionInfo {
        id: row.id,
        messages: usize::try_from(row.messages).unwrap_or(0),
        updated_at: row.updated_at,
    };
    let mut sessions: Vec<_> = tables.page(tx, range)?.into_iter().map(info).collect();
    let has_more = sessions.len() > limit;
    sessions.truncate(limit);
    let last = sessions.last().filter(|_| has_more);
    let next = last.map(|info| SessionCursor { updated_at: info.updated_at, id: info.id.clone() });
    Ok(SessionPage { sessions, next })
}

/// Creates the error of a session with invalid rows.
fn corrupt(id: &str, problem: String) -> SessionError {
    SessionError::Corrupt { id: id.to_owned(), problem }
}
