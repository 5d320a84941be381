//! Converts sessions.

use provost_api::{DateTime, Problem, Session, SessionMessage};
use provost_store::query::session::{SessionMessageView, SessionPosition};
use provost_store::table::work::session::SessionRow;

use super::parse_json;
use crate::error;

/// Converts a session.
pub(crate) fn view(row: SessionRow) -> Result<Session, Problem> {
    Ok(Session {
        id: row.id,
        key: row.key,
        agent: row.agent,
        queue: row.queue.as_deref().map(parse_json).transpose()?,
        revision: row.revision,
        holder: row.holder_run_id,
        created: DateTime(row.created),
        updated: DateTime(row.updated),
    })
}

/// Converts a message of a session.
pub(crate) fn message(shown: SessionMessageView) -> SessionMessage {
    let SessionMessageView { entry, id, run, message } = shown;
    SessionMessage { entry, id, run, message: (*message).clone() }
}

/// Formats the cursor of a page of messages.
pub(crate) fn format_cursor(position: SessionPosition) -> String {
    format!("{}-{}", position.revision, position.after)
}

/// Parses the cursor of a page of messages.
pub(crate) fn parse_cursor(text: &str) -> Result<SessionPosition, Problem> {
    let numbers = text.split_once('-').and_then(|(revision, after)| {
        Some(SessionPosition { revision: revision.parse().ok()?, after: after.parse().ok()? })
    });
    numbers.ok_or_else(|| {
        error::invalid("cursor", "send the `next` value of the previous page unchanged")
    })
}
