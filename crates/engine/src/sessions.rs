//! Sessions as people know them: by name, with what was said in them and the run that is not finished.

use std::sync::Arc;

use provost_core::command::check_session_key;
use provost_core::id::name::Namespace;
use provost_core::scheduling::{QueueOverride, QueueSettings};
use provost_core::{Message, RunId};
use provost_store::Tx;
use provost_store::table::work::run::{RunFilter, RunRow};
use provost_store::table::work::session::{self, SessionRow};
use provost_store::table::work::{run, task};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::journal::stored_transcript;

/// What was said in a session, and what is still going on in it.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// Everything before the unfinished run, oldest first; everything if there is none.
    pub messages: Vec<Arc<Message>>,
    /// The run that comes next or is under way; its own log tells the rest.
    pub unfinished: Option<RunId>,
    /// The newest run that has ended.
    pub last: Option<RunId>,
}

/// Commands to sessions. See [`Engine::sessions`](crate::Engine::sessions).
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(crate) engine: &'a Engine,
}

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewSession {
    /// Key of the session.
    pub key: Option<String>,
    /// True if a session that has the key loses it. False returns that session.
    pub fresh: bool,
}

/// A created session.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedSession {
    /// The session.
    pub row: SessionRow,
    /// False if the session existed before.
    pub is_new: bool,
}

impl Sessions<'_> {
    /// Creates a session, or finds the one that has the key.
    pub async fn create(
        self,
        namespace: &Namespace,
        new: NewSession,
    ) -> Result<CreatedSession, EngineError> {
        new.key.as_deref().map(check_session_key).transpose()?;
        let namespace = namespace.to_string();
        let shared = &self.engine.shared;
        let id = shared.env.id::<RunId>().to_string();
        let id = format!("ses_{}", id.trim_start_matches("run_"));
        let create = shared.store.write(move |tx| create(tx, &namespace, &id, &new));
        create.await
    }

    /// An id for a session that nobody has yet.
    pub fn new_id(self) -> String {
        let id = self.engine.shared.env.id::<RunId>().to_string();
        format!("ses_{}", id.trim_start_matches("run_"))
    }

    /// The id of the session with a name; it is made if there is none.
    pub async fn find_or_create(
        self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<String, EngineError> {
        let (scope, key) = (namespace.to_string(), name.to_owned());
        let found = self.engine.shared.store.read(move |tx| {
            Ok::<_, EngineError>(session::by_key(tx, &scope, &key)?.map(|row| row.id))
        });
        if let Some(id) = found.await? {
            return Ok(id);
        }
        let (scope, key, id) = (namespace.to_string(), name.to_owned(), self.new_id());
        let made = self.engine.shared.store.write(move |tx| {
            // Somebody may have been faster.
            if let Some(row) = session::by_key(tx, &scope, &key)? {
                return Ok::<_, EngineError>(row.id);
            }
            make(tx, &scope, &key, &id)?;
            Ok(id.clone())
        });
        made.await
    }

    /// Gives a name to a new session. The one that had it keeps what was said and has no name any more.
    pub async fn start_fresh(
        self,
        namespace: &Namespace,
        name: &str,
    ) -> Result<String, EngineError> {
        let (scope, key, id) = (namespace.to_string(), name.to_owned(), self.new_id());
        let made = self.engine.shared.store.write(move |tx| {
            if let Some(old) = session::by_key(tx, &scope, &key)? {
                SessionRow { key: None, ..old }.update(tx)?;
            }
            make(tx, &scope, &key, &id)?;
            Ok::<_, EngineError>(id.clone())
        });
        made.await
    }

    /// Sets how messages wait in a session, as far as it differs from what its agent says.
    pub async fn set_queue(
        self,
        namespace: &Namespace,
        id: &str,
        queue: QueueOverride,
    ) -> Result<(), EngineError> {
        QueueSettings::default().with(&[queue]).validate()?;
        let (namespace, id) = (namespace.to_string(), id.to_owned());
        let write = self.engine.shared.store.write(move |tx| {
            let row = session::get(tx, &namespace, &id)?;
            let mut row = row.ok_or_else(|| EngineError::not_found("session", &id))?;
            let said = queue != QueueOverride::default();
            row.queue = said.then(|| serde_json::to_string(&queue)).transpose()?;
            row.updated = tx.now();
            row.update(tx)?;
            Ok::<_, EngineError>(())
        });
        write.await
    }

    /// What was said in a session.
    pub async fn conversation(
        self,
        namespace: &Namespace,
        session: &str,
    ) -> Result<Conversation, EngineError> {
        let (namespace, session) = (namespace.to_string(), session.to_owned());
        self.engine.shared.store.read(move |tx| conversation(tx, &namespace, &session)).await
    }

    /// The first run of a session that was made after another one, without those that ended before they began.
    pub async fn next_run(
        self,
        namespace: &Namespace,
        session: &str,
        after: RunId,
    ) -> Result<Option<RunId>, EngineError> {
        let (namespace, session) = (namespace.to_string(), session.to_owned());
        let next = self.engine.shared.store.read(move |tx| {
            Ok::<_, EngineError>(run::next_of_session(tx, &namespace, &session, after)?)
        });
        next.await
    }

    /// The newest runs of a namespace, newest first.
    pub async fn newest_runs(
        self,
        namespace: &Namespace,
        limit: u64,
    ) -> Result<Vec<RunRow>, EngineError> {
        let namespace = namespace.to_string();
        let runs = self.engine.shared.store.read(move |tx| {
            Ok::<_, EngineError>(run::list(tx, &namespace, &RunFilter::default(), limit)?)
        });
        runs.await
    }
}

fn make(tx: &mut Tx<'_>, namespace: &str, key: &str, id: &str) -> Result<(), EngineError> {
    let now = tx.now();
    let row = SessionRow {
        namespace: namespace.to_owned(),
        id: id.to_owned(),
        key: Some(key.to_owned()),
        queue: None,
        agent: None,
        revision: 0,
        next_entry: 1,
        fence: 0,
        holder_run_id: None,
        created: now,
        updated: now,
    };
    row.insert(tx)?;
    Ok(())
}

fn conversation(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
) -> Result<Conversation, EngineError> {
    let unfinished = match run::holder(tx, namespace, session)? {
        Some(holder) => Some(holder),
        None => run::first_waiting(tx, namespace, session)?,
    };
    let base = unfinished.as_ref().and_then(|run| run.base_revision);
    let messages = match base {
        // Nothing had been said before it.
        Some(0) => Vec::new(),
        base => stored_transcript::load(tx, namespace, session, base)?
            .map(|transcript| transcript.messages)
            .unwrap_or_default(),
    };
    let newest = task::newest_of_session(tx, namespace, session)?;
    let runs = newest.map(|task| run::of_task(tx, task.id)).transpose()?.unwrap_or_default();
    let last = runs.iter().rev().find(|run| run.ended.is_some()).map(|run| run.id);
    Ok(Conversation { messages, unfinished: unfinished.map(|run| run.id), last })
}

fn create(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
    new: &NewSession,
) -> Result<CreatedSession, EngineError> {
    let found = match &new.key {
        Some(key) => session::by_key(tx, namespace, key)?,
        None => None,
    };
    match found {
        Some(row) if !new.fresh => return Ok(CreatedSession { row, is_new: false }),
        Some(row) => SessionRow { key: None, ..row }.update(tx)?,
        None => {}
    }
    let now = tx.now();
    let row = SessionRow {
        namespace: namespace.to_owned(),
        id: id.to_owned(),
        key: new.key.clone(),
        queue: None,
        agent: None,
        revision: 0,
        next_entry: 1,
        fence: 0,
        holder_run_id: None,
        created: now,
        updated: now,
    };
    row.insert(tx)?;
    Ok(CreatedSession { row, is_new: true })
}
