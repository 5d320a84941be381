//! Reading sessions, each time from one state of the file.

use std::sync::Arc;

use provost_core::{Message, Timestamp};
use provost_store::Tx;
use provost_store::table::session_file::{ListedSession, SessionRange, SessionTables};
use serde_json::{Map, Value};

use super::fault::Fault;
use super::{SessionCursor, SessionPage};
use crate::{SessionError, SessionInfo, Transcript};

/// A session without its messages.
pub(super) struct Head {
    pub(super) key: i64,
    pub(super) revision: u64,
    pub(super) messages: usize,
    pub(super) metadata: String,
}

pub(super) fn head(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
) -> Result<Option<Head>, Fault> {
    let Some(row) = tables.head(tx, id)? else { return Ok(None) };
    match (u64::try_from(row.revision), usize::try_from(row.messages)) {
        (Ok(revision), Ok(messages)) => {
            Ok(Some(Head { key: row.key, revision, messages, metadata: row.metadata }))
        }
        _ => {
            let problem = format!("it has revision {} and {} messages", row.revision, row.messages);
            Err(corrupt(id, problem).into())
        }
    }
}

/// The newest messages of a session, at most `newest` of them.
pub(super) fn load(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
    newest: usize,
) -> Result<Option<Transcript>, Fault> {
    let Some(head) = head(tx, tables, id)? else { return Ok(None) };
    let first = head.messages.saturating_sub(newest);
    let mut messages = Vec::new();
    for stored in tables.messages(tx, head.key, first as i64)? {
        let place = first + messages.len();
        if stored.seq != place as i64 {
            return Err(corrupt(id, format!("message {place} is missing")).into());
        }
        let message: Message = serde_json::from_str(&stored.body)
            .map_err(|error| corrupt(id, format!("message {place} is no message: {error}")))?;
        messages.push(Arc::new(message));
    }
    if first + messages.len() != head.messages {
        let there = first + messages.len();
        return Err(corrupt(id, format!("it has {there} of its {} messages", head.messages)).into());
    }
    Ok(Some(Transcript { messages, revision: head.revision }))
}

pub(super) fn metadata(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    id: &str,
) -> Result<Option<Map<String, Value>>, Fault> {
    let Some(head) = head(tx, tables, id)? else { return Ok(None) };
    let parsed = serde_json::from_str(&head.metadata);
    Ok(parsed
        .map(Some)
        .map_err(|error| corrupt(id, format!("its metadata is no object: {error}")))?)
}

/// The sessions after a place in the listing.
pub(super) fn page(
    tx: &mut Tx<'_>,
    tables: &SessionTables,
    after: Option<&SessionCursor>,
    limit: usize,
) -> Result<SessionPage, Fault> {
    let range = SessionRange {
        updated_at: after.map_or(Timestamp::from_millis(i64::MAX), |cursor| cursor.updated_at),
        id: after.map_or("", |cursor| cursor.id.as_str()),
        // One more than wanted tells whether there are more.
        limit: limit.saturating_add(1),
    };
    let info = |row: ListedSession| SessionInfo {
        id: row.id,
        messages: usize::try_from(row.messages).unwrap_or(0),
        updated_at: row.updated_at,
    };
    let mut sessions: Vec<_> = tables.page(tx, range)?.into_iter().map(info).collect();
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let last = sessions.last().filter(|_| more);
    let next = last.map(|info| SessionCursor { updated_at: info.updated_at, id: info.id.clone() });
    Ok(SessionPage { sessions, next })
}

fn corrupt(id: &str, problem: String) -> SessionError {
    SessionError::Corrupt { id: id.to_owned(), problem }
}
