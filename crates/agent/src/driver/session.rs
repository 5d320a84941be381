//! A run's session: loaded once, committed turn by turn.

use std::sync::Arc;

use provost_core::Message;
use provost_session::{Session, SessionChange, SessionStore};

use super::Driver;
use crate::agent::AgentCore;
use crate::error::Error;
use crate::outcome::SessionPoint;
use crate::run::Feed;
use crate::run_builder::RunOptions;

/// A store and an id in it.
type NamedSession = (Arc<dyn SessionStore>, String);

/// A session and the revision this run has seen.
pub(crate) struct BoundSession {
    store: Arc<dyn SessionStore>,
    id: String,
    revision: u64,
}

impl BoundSession {
    /// Loads the session a run names, if it names one.
    pub(crate) async fn open(
        options: &RunOptions,
        core: &AgentCore,
    ) -> Result<(Option<Self>, Vec<Arc<Message>>), Error> {
        let Some((store, id)) = Self::named(options, core)? else {
            return Ok((None, Vec::new()));
        };
        let transcript = store.load(&id).await?.unwrap_or_default();
        let session = Self { store, id, revision: transcript.revision };
        Ok((Some(session), transcript.messages))
    }

    /// Finds the session of a suspended run again; nobody may have written to it meanwhile.
    pub(crate) async fn reopen(
        options: &RunOptions,
        core: &AgentCore,
        point: SessionPoint,
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
        // An empty commit claims the run: of two that resume the same bytes at once, only one gets past here.
        let revision = store.commit(&point.id, point.revision, SessionChange::default()).await?;
        Ok(Self { store, id: point.id, revision })
    }

    /// The session of a run that was restored: its writer knows where it stands.
    pub(crate) fn at(
        options: &RunOptions,
        core: &AgentCore,
        revision: u64,
    ) -> Result<Option<Self>, Error> {
        let named = Self::named(options, core)?;
        Ok(named.map(|(store, id)| Self { store, id, revision }))
    }

    /// The session a run names, for those who look at it from outside.
    pub(crate) fn of_run(options: &RunOptions, core: &AgentCore) -> Option<Session> {
        let (store, id) = Self::named(options, core).ok().flatten()?;
        Some(Session::new(store, id))
    }

    /// The id of the session a run names.
    pub(crate) fn id_of(options: &RunOptions) -> Option<&str> {
        let given = options.session.as_ref().map(|(_, id)| id);
        given.or(options.session_id.as_ref()).map(String::as_str)
    }

    pub(crate) fn point(&self) -> SessionPoint {
        SessionPoint { id: self.id.clone(), revision: self.revision }
    }

    fn named(options: &RunOptions, core: &AgentCore) -> Result<Option<NamedSession>, Error> {
        match (&options.session, &options.session_id, &core.session_store) {
            (Some((store, id)), _, _) => Ok(Some((Arc::clone(store), id.clone()))),
            (None, Some(id), Some(store)) => Ok(Some((Arc::clone(store), id.clone()))),
            (None, Some(id), None) => Err(Error::Start(format!(
                "there is no store for session `{id}`: build the agent with `.sessions(..)` or use `.session(store, id)`"
            ))),
            (None, None, _) => Ok(None),
        }
    }
}

impl Driver {
    /// Commits what the session does not have yet, all of it or nothing.
    pub(super) async fn save(&mut self) -> Result<(), Error> {
        if !self.run.has_unsaved() {
            return Ok(());
        }
        let Some(session) = &mut self.session else {
            self.feed(Feed::Saved)?;
            return Ok(());
        };
        let change = self.run.unsaved().clone();
        session.revision = session.store.commit(&session.id, session.revision, change).await?;
        self.feed(Feed::Saved)?;
        if let Some(journal) = &self.cx.journal {
            journal.settled(&self.run);
        }
        Ok(())
    }
}
