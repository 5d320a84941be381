//! The session of a run: loaded once, committed turn by turn.

use std::sync::Arc;

use provost_core::Message;
use provost_session::{Session, SessionChange, SessionStore};

use super::Driver;
use crate::agent::AgentDefinition;
use crate::error::Error;
use crate::outcome::SessionRevision;
use crate::run::JournalEntry;
use crate::run_builder::RunOptions;

/// A session store and the id of a session in it.
type SessionTarget = (Arc<dyn SessionStore>, String);

/// A session and the revision that the run has seen.
pub(crate) struct RunSession {
    store: Arc<dyn SessionStore>,
    id: String,
    revision: u64,
}

impl RunSession {
    /// Loads the session that the run or its agent names, with its messages. `None` and no messages if they name none.
    pub(crate) async fn open(
        options: &RunOptions,
        definition: &AgentDefinition,
    ) -> Result<(Option<Self>, Vec<Arc<Message>>), Error> {
        let Some((store, id)) = Self::target(options, definition)? else {
            return Ok((None, Vec::new()));
        };
        let transcript = store.load(&id).await?.unwrap_or_default();
        let session = Self { store, id, revision: transcript.revision };
        Ok((Some(session), transcript.messages))
    }

    /// Opens the session of a suspended run with an empty commit, so that only one process can resume the run. Returns
    /// an error if the session has changed.
    pub(crate) async fn reopen(
        options: &RunOptions,
        definition: &AgentDefinition,
        point: SessionRevision,
    ) -> Result<Self, Error> {
        let store = match (&options.session, &definition.session_store) {
            (Some((store, id)), _) if *id == point.id => Arc::clone(store),
            (Some((_, id)), _) => {
                let message = format!("the run belongs to session `{}`, not to `{id}`", point.id);
                return Err(Error::Start(message));
            }
            (None, Some(store)) => Arc::clone(store),
            (None, None) => {
                let message = format!(
                    "the run has session `{}`: give its store with `.session(..)`",
                    point.id
                );
                return Err(Error::Start(message));
            }
        };
        // An empty commit claims the run: if two processes resume the same bytes, only one succeeds.
        let revision = store.commit(&point.id, point.revision, SessionChange::default()).await?;
        Ok(Self { store, id: point.id, revision })
    }

    /// Returns the session of a restored run at the revision that its host recorded. Loads nothing. `None` if the run
    /// has no session.
    pub(crate) fn at_revision(
        options: &RunOptions,
        definition: &AgentDefinition,
        revision: u64,
    ) -> Result<Option<Self>, Error> {
        let named = Self::target(options, definition)?;
        Ok(named.map(|(store, id)| Self { store, id, revision }))
    }

    /// Returns the session of a run as a read-only handle for hooks and tools. `None` if it has none or its
    /// options are not valid.
    pub(crate) fn of_run(options: &RunOptions, definition: &AgentDefinition) -> Option<Session> {
        let (store, id) = Self::target(options, definition).ok().flatten()?;
        Some(Session::new(store, id))
    }

    /// Returns the id of the session that a run names. `None` if it names none.
    pub(crate) fn id_of(options: &RunOptions) -> Option<&str> {
        let given = options.session.as_ref().map(|(_, id)| id);
        given.or(options.session_id.as_ref()).map(String::as_str)
    }

    /// Returns the id of the session and the revision that the run has seen.
    pub(crate) fn session_revision(&self) -> SessionRevision {
        SessionRevision { id: self.id.clone(), revision: self.revision }
    }

    /// Returns the store and the id of the session that a run names. `None` if it names none. Returns an error if it
    /// names a session without a store.
    fn target(
        options: &RunOptions,
        definition: &AgentDefinition,
    ) -> Result<Option<SessionTarget>, Error> {
        match (&options.session, &options.session_id, &definition.session_store) {
            (Some((store, id)), _, _) => Ok(Some((Arc::clone(store), id.clone()))),
            (None, Some(id), Some(store)) => Ok(Some((Arc::clone(store), id.clone()))),
            (None, Some(id), None) => Err(Error::Start(format!(
                "there is no store for session `{id}`: build the agent with `.session_store(..)` or use `.session_in(store, id)`"
            ))),
            (None, None, _) => Ok(None),
        }
    }
}

impl Driver {
    /// Commits the unsaved changes to the session, and passes a checkpoint to the journal. Without a session, it only
    /// marks the changes as saved. Returns an error if another writer changed the session.
    pub(super) async fn save(&mut self) -> Result<(), Error> {
        if !self.run.has_unsaved() {
            return Ok(());
        }
        let Some(session) = &mut self.session else {
            self.apply_entry(JournalEntry::Saved)?;
            return Ok(());
        };
        let change = self.run.unsaved().clone();
        session.revision = session.store.commit(&session.id, session.revision, change).await?;
        self.apply_entry(JournalEntry::Saved)?;
        if let Some(journal) = &self.cx.journal {
            journal.checkpoint(&self.run);
        }
        Ok(())
    }
}
