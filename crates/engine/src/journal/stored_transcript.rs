//! Stored sessions: their messages at a revision.

use std::sync::Arc;

use provost_core::Message;
use provost_session::Transcript;
use provost_store::Tx;
use provost_store::table::work::{session, session_entry};

use crate::error::EngineError;
use provost_store::table::work::stored_message as message;

/// Loads a session at a revision, or its current state; `None` if it has no messages.
pub(crate) fn load(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
    revision: Option<u64>,
) -> Result<Option<Transcript>, EngineError> {
    let Some(row) = session::get(tx, namespace, id)? else { return Ok(None) };
    let revision = revision.unwrap_or(row.revision);
    if revision == 0 {
        return Ok(None);
    }
    let stored = session_entry::messages_at(tx, namespace, id, revision)?;
    let mut messages: Vec<Arc<Message>> = Vec::with_capacity(stored.len());
    for entry in stored {
        messages.push(message::read(tx, &entry.text)?);
    }
    Ok(Some(Transcript { messages, revision }))
}
