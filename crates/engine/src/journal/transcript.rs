//! The session of the run: loaded at its start and committed after each turn. A session change commits together with
//! the step that records it.

use futures::FutureExt;
use provost_core::Role;
use provost_core::lifecycle::StepKind;
use provost_session::{
    SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore, Transcript,
};
use provost_store::StoredText;

use super::{JournalState, RunJournal};
use crate::error::EngineError;
use crate::journal::transaction::{NewMessage, SessionMessageRef, SessionUpdate, StepWrite};
use crate::journal::writer::Urgency;
use crate::journal::{stored_transcript, transaction};
use provost_store::table::work::stored_message as message;

impl SessionStore for RunJournal {
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>> {
        async move {
            if self.state.lock().revision == 0 {
                // The session is empty, and only this run can write to it.
                return Ok(None);
            }
            let (namespace, session) = (self.lease.namespace.clone(), id.to_owned());
            let loaded =
                self.store.read(move |tx| stored_transcript::load(tx, &namespace, &session, None));
            let loaded = loaded.await.map_err(|error| session_error(id, error))?;
            if let Some(transcript) = &loaded {
                self.state.lock().revision = transcript.revision;
            }
            Ok(loaded)
        }
        .boxed()
    }

    fn commit<'a>(
        &'a self,
        id: &'a str,
        base: u64,
        change: SessionChange,
    ) -> SessionFuture<'a, u64> {
        async move {
            self.save(base, change).map_err(|error| session_error(id, error))?;
            Ok(base + 1)
        }
        .boxed()
    }

    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool> {
        async move { Err(session_error(id, EngineError::bug("a run does not delete its session"))) }
            .boxed()
    }

    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>> {
        async move { Err(session_error("", EngineError::bug("a run does not list sessions"))) }
            .boxed()
    }
}

impl RunJournal {
    /// Adds a change of the session to the previous write, or writes it as a step of its own.
    fn save(&self, base: u64, change: SessionChange) -> Result<(), EngineError> {
        let mut state = self.state.lock();
        let change = self.session_write(&mut state, base, change)?;
        let entry_no = state.next_entry_no;
        state.next_entry_no += 1;
        let Some(change) = self.writer.lock().add_session_update(entry_no, change) else {
            return Ok(());
        };
        let saved = StoredText::new(transaction::SESSION_SAVED)?;
        let mut write = StepWrite::commit(state.take_step(), StepKind::Note, entry_no, saved);
        write.session = Some(change);
        write.restricted = state.restricted;
        write.next_step = state.next_step;
        write.open_from = state.first_in_flight_step();
        drop(state);
        self.enqueue(write, Urgency::Deferred)
    }

    /// Returns the write of a session change: it refers to stored messages by id and stores the others.
    fn session_write(
        &self,
        state: &mut JournalState,
        base: u64,
        change: SessionChange,
    ) -> Result<SessionUpdate, EngineError> {
        let mut entries = Vec::with_capacity(change.add.len());
        for message in &change.add {
            let body = match message.role {
                Role::Tool => message::with_named_results(message, self.lease.run, &state.results)?,
                _ => serde_json::to_string(&**message)?,
            };
            entries.push(match state.recent.get(&body) {
                Some(id) => SessionMessageRef::Known(*id),
                None => {
                    let (id, body) = (state.env.id(), StoredText::new(body)?);
                    SessionMessageRef::New(NewMessage { id, body, known: false })
                }
            });
        }
        state.recent.clear();
        state.results.clear();
        state.revision = base + 1;
        Ok(SessionUpdate { base, pop: change.pop, entries })
    }
}

/// Converts an error of the engine.
fn session_error(id: &str, error: EngineError) -> SessionError {
    SessionError::Storage {
        message: format!("session `{id}`"),
        source: std::io::Error::other(error.to_string()),
    }
}
