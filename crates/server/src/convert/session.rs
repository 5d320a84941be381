//! Conversations on the wire.

use provost_api::{Problem, Session, SessionMessage, Time};
use provost_store::query::session::{SessionPlace, ShownMessage};
use provost_store::table::work::session::SessionRow;

use super::stored;
use crate::error;

/// A conversation as it stands.
pub(crate) fn view(row: SessionRow) -> Result<Session, Problem> {
    Ok(Session {
        id: row.id,
        key: row.key,
        agent: row.agent,
        queue: row.queue.as_deref().map(stored).transpose()?,
        revision: row.revision,
        holder: row.holder_run_id,
        created: Time(row.created),
        updated: Time(row.updated),
    })
}

/// A message of a conversation.
pub(crate) fn message(shown: ShownMessage) -> SessionMessage {
    let ShownMessage { entry, id, run, message } = shown;
    SessionMessage { entry, id, run, message: (*message).clone() }
}

/// Where a page of messages begins, as a cursor.
pub(crate) fn place_text(place: SessionPlace) -> String {
    format!("{}-{}", place.revision, place.after)
}

/// Where a page of messages begins.
pub(crate) fn place(text: &str) -> Result<SessionPlace, Problem> {
    let numbers = text.split_once('-').and_then(|(revision, after)| {
        Some(SessionPlace { revision: revision.parse().ok()?, after: after.parse().ok()? })
    });
    numbers.ok_or_else(|| error::invalid("cursor", "use `next` of the page before, as it is"))
}
