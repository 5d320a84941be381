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
    /// Loads the session that the run or its agent names. Returns `None` and no messages if it names none.
    pub(crate) async fn open(
        options: &RunOptions,
        core: &AgentDefinition,
    ) -> Result<(Option<Self>, Vec<Arc<Message>>), Error> {
        let Some((store, id)) = Self::named(options, core)? else {
            return Ok((None, Vec::new()));
        };
        let transcript = store.load(&id).await?.unwrap_or_default();
        let session = Self { store, id, revision: transcript.revision };
        Ok((Some(session), transcript.messages))
    }

    /// Opens the session of a suspended run. Fails if another writer changed the session since.
    pub(crate) async fn reopen(
        options: &RunOptions,
        core: &AgentDefinition,
        point: SessionRevision,
    ) -> Result<Self, Error> {
        let store = match (&options.session, &core.session_store) {
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

    /// Binds the session of a restored run at the revision that its host recorded.
    pub(crate) fn at(
        options: &RunOptions,
        core: &AgentDefinition,
        revision: u64,
    ) -> Result<Option<Self>, Error> {
        let named = Self::named(options, core)?;
        Ok(named.map(|(store, id)| Self { store, id, revision }))
    }

    /// The session that a run names, as a read-only handle for hooks and tools.
    pub(crate) fn of_run(options: &RunOptions, core: &AgentDefinition) -> Option<Session> {
        let (store, id) = Self::named(options, core).ok().flatten()?;
        Some(Session::new(store, id))
    }

    /// The id of the session that a run names.
    pub(crate) fn id_of(options: &RunOptions) -> Option<&str> {
        let given = options.session.as_ref().map(|(_, id)| id);
        given.or(options.session_id.as_ref()).map(String::as_str)
    }

    pub(crate) fn point(&self) -> SessionRevision {
        SessionRevision { id: self.id.clone(), revision: self.revision }
    }

    fn named(options: &RunOptions, core: &AgentDefinition) -> Result<Option<SessionTarget>, Error> {
        match (&options.session, &options.session_id, &core.session_store) {
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
    /// Commits all unsaved changes in one transaction.
    pub(super) async fn save(&mut self) -> Result<(), Error> {
        if !self.run.has_unsaved() {
            return Ok(());
        }
        let Some(session) = &mut self.session else {
            self.feed(JournalEntry::Saved)?;
            return Ok(());
        };
        let change = self.run.unsaved().clone();
        session.revision = session.store.commit(&session.id, session.revision, change).await?;
        self.feed(JournalEntry::Saved)?;
        if let Some(journal) = &self.cx.journal {
            journal.checkpoint(&self.run);
        }
        Ok(())
    }
}
