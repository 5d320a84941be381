//! Reading sessions, each time from one state of the file.

use std::sync::Arc;

use crate::{SessionError, SessionInfo, Transcript};
use provost_core::{Message, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value};

use super::fault::{ALL, fault};
use super::sql::Sql;
use super::{SessionCursor, SessionPage};

/// A session without its messages.
pub(super) struct Head {
    pub(super) key: i64,
    pub(super) revision: u64,
    pub(super) messages: usize,
    pub(super) metadata: String,
}

pub(super) fn head(db: &Connection, sql: &Sql, id: &str) -> Result<Option<Head>, SessionError> {
    let found = || {
        db.prepare_cached(&sql.session)?
            .query_row([id], |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get(3)?))
            })
            .optional()
    };
    let Some((key, revision, messages, metadata)) = found().map_err(|error| fault(id, error))?
    else {
        return Ok(None);
    };
    match (u64::try_from(revision), usize::try_from(messages)) {
        (Ok(revision), Ok(messages)) => Ok(Some(Head { key, revision, messages, metadata })),
        _ => Err(corrupt(id, format!("it has revision {revision} and {messages} messages"))),
    }
}

/// The newest messages of a session, at most `newest` of them.
pub(super) fn load(
    db: &Connection,
    sql: &Sql,
    id: &str,
    newest: usize,
) -> Result<Option<Transcript>, SessionError> {
    let Some(head) = head(db, sql, id)? else { return Ok(None) };
    let first = head.messages.saturating_sub(newest);
    let failed = |error| fault(id, error);
    let mut statement = db.prepare_cached(&sql.messages).map_err(failed)?;
    let mut rows = statement.query(params![head.key, first as i64]).map_err(failed)?;
    let mut messages = Vec::with_capacity((head.messages - first).min(1024));
    while let Some(row) = rows.next().map_err(failed)? {
        let place = first + messages.len();
        let seq: i64 = row.get(0).map_err(failed)?;
        if seq != place as i64 {
            return Err(corrupt(id, format!("message {place} is missing")));
        }
        let ValueRef::Text(body) = row.get_ref(1).map_err(failed)? else {
            return Err(corrupt(id, format!("message {place} is no text")));
        };
        let message: Message = serde_json::from_slice(body)
            .map_err(|error| corrupt(id, format!("message {place} is no message: {error}")))?;
        messages.push(Arc::new(message));
    }
    if first + messages.len() != head.messages {
        let there = first + messages.len();
        return Err(corrupt(id, format!("it has {there} of its {} messages", head.messages)));
    }
    Ok(Some(Transcript { messages, revision: head.revision }))
}

pub(super) fn metadata(
    db: &Connection,
    sql: &Sql,
    id: &str,
) -> Result<Option<Map<String, Value>>, SessionError> {
    let Some(head) = head(db, sql, id)? else { return Ok(None) };
    let parsed = serde_json::from_str(&head.metadata);
    parsed.map(Some).map_err(|error| corrupt(id, format!("its metadata is no object: {error}")))
}

/// The sessions after a place in the listing.
pub(super) fn page(
    db: &Connection,
    sql: &Sql,
    after: Option<&SessionCursor>,
    limit: usize,
) -> Result<SessionPage, SessionError> {
    let failed = |error| fault(ALL, error);
    let (before, id) =
        after.map_or((i64::MAX, ""), |cursor| (cursor.updated_at.as_millis(), cursor.id.as_str()));
    // One more than wanted tells whether there are more.
    let wanted = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = db.prepare_cached(&sql.page).map_err(failed)?;
    let rows = statement
        .query_map(params![before, id, wanted], |row| {
            let messages: i64 = row.get(1)?;
            Ok(SessionInfo {
                id: row.get(0)?,
                messages: usize::try_from(messages).unwrap_or(0),
                updated_at: Timestamp::from_millis(row.get(2)?),
            })
        })
        .map_err(failed)?;
    let mut sessions = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    let last = sessions.last().filter(|_| more);
    let next = last.map(|info| SessionCursor { updated_at: info.updated_at, id: info.id.clone() });
    Ok(SessionPage { sessions, next })
}

fn corrupt(id: &str, problem: String) -> SessionError {
    SessionError::Corrupt { id: id.to_owned(), problem }
}
