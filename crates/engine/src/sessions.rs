//! Commands for sessions.

use provost_core::RunId;
use provost_core::command::check_session_key;
use provost_core::id::name::Namespace;
use provost_core::scheduling::{InputQueueOverride, InputQueueSettings};
use provost_store::Tx;
use provost_store::table::work::session::{self, SessionRow};

use crate::engine::Engine;
use crate::error::EngineError;

/// Commands for sessions. See [`Engine::sessions`](crate::Engine::sessions).
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    pub(crate) engine: &'a Engine,
}

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewSession {
    /// Key of the session.
    pub key: Option<String>,
    /// True to take the key from an existing session. False to return that session.
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
    /// Creates a session, or returns the session that has the key.
    pub async fn create(
        self,
        namespace: &Namespace,
        new: NewSession,
    ) -> Result<CreatedSession, EngineError> {
        new.key.as_deref().map(check_session_key).transpose()?;
        let namespace = namespace.to_string();
        let shared = &self.engine.inner;
        let id = shared.env.id::<RunId>().to_string();
        let id = format!("ses_{}", id.trim_start_matches("run_"));
        let create = shared.store.write(move |tx| create(tx, &namespace, &id, &new));
        create.await
    }

    /// Sets the queue settings of a session, which override the settings of its agent. Empty settings remove the
    /// override. Fails if the session does not exist.
    pub async fn set_queue(
        self,
        namespace: &Namespace,
        id: &str,
        queue: InputQueueOverride,
    ) -> Result<(), EngineError> {
        InputQueueSettings::default().with(&[queue]).validate()?;
        let (namespace, id) = (namespace.to_string(), id.to_owned());
        let write = self.engine.inner.store.write(move |tx| {
            let row = session::lock(tx, &namespace, &id)?;
            let mut row = row.ok_or_else(|| EngineError::not_found("session", &id))?;
            let said = queue != InputQueueOverride::default();
            row.queue = said.then(|| serde_json::to_string(&queue)).transpose()?;
            row.updated = tx.now();
            row.save(tx)?;
            Ok::<_, EngineError>(())
        });
        write.await
    }
}

/// Inserts a session. If the key is in use, returns that session, or with `fresh` moves the key to the new one.
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
        Some(row) => {
            if let Some(mut old) = session::lock(tx, namespace, &row.id)? {
                old.key = None;
                old.save(tx)?;
            }
        }
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
        continuable: false,
    };
    row.insert(tx)?;
    Ok(CreatedSession { row, is_new: true })
}
