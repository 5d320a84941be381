//! Workers that serve only some sessions. A terminal, for example, serves only its own conversation.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::RunId;
use provost_core::id::name::Namespace;
use provost_store::Tx;
use provost_store::table::work::run;
use provost_store::table::work::session::SessionRef;

use crate::error::EngineError;
use crate::worker::claim::{ClaimContext, JOURNAL_FORMAT_VERSION};

/// Sessions that a worker serves. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ServedSessions {
    sessions: Arc<Mutex<BTreeSet<(String, String)>>>,
}

impl ServedSessions {
    /// Adds a session. Call it before submitting work to the session; otherwise the work may wait for the next poll.
    pub fn add(&self, namespace: &Namespace, session: &str) {
        let mut sessions = self.sessions.lock();
        sessions.insert((namespace.to_string(), session.to_owned()));
    }

    /// Returns the sessions with their namespaces.
    pub(crate) fn sessions(&self) -> BTreeSet<(String, String)> {
        self.sessions.lock().clone()
    }
}

impl ClaimContext {
    /// Returns the next run to claim, with its class. A worker that is restricted to some sessions claims only their
    /// runs. `None` if there is none.
    pub(crate) fn next_ready(
        &self,
        tx: &mut Tx<'_>,
        except: &[RunId],
    ) -> Result<Option<(RunId, String)>, EngineError> {
        let Some(sessions) = &self.sessions else {
            return Ok(run::next_claimable(tx, &self.pool, JOURNAL_FORMAT_VERSION, except)?);
        };
        for (namespace, session) in &sessions.sessions() {
            let found = run::ready_of_session(
                tx,
                SessionRef { namespace, id: session },
                &self.pool,
                JOURNAL_FORMAT_VERSION,
            )?;
            if let Some(found) = found.filter(|(id, _)| !except.contains(id)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
