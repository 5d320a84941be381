//! The session of a task request.

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_store::Tx;
use provost_store::table::work::session::{self, SessionRow};

use super::NewTask;
use crate::error::EngineError;

/// Returns the session that a request names by id or by key, if it exists. Fails if the key belongs to a session with
/// another id.
pub(super) fn find(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    command: &TaskRequest,
) -> Result<Option<SessionRow>, EngineError> {
    let by_key = match &command.session_key {
        Some(key) => session::by_key(tx, namespace.as_str(), key)?,
        None => None,
    };
    let Some(id) = &command.session_id else { return Ok(by_key) };
    if by_key.as_ref().is_some_and(|row| row.id != id.as_str()) {
        let problem = "it belongs to another session";
        let fix = "omit session_id to use that session, or use another key";
        return Err(RequestError::invalid("command.session_key", problem, fix).into());
    }
    Ok(session::get(tx, namespace.as_str(), id.as_str())?)
}

/// Returns the id of the session of a new task: the session that was found, or a new one.
pub(super) fn open(
    tx: &mut Tx<'_>,
    new: &NewTask<'_>,
    found: Option<SessionRow>,
    agent: &str,
) -> Result<String, EngineError> {
    let command = new.message.command;
    if let Some(found) = found {
        let locked = session::lock(tx, &found.namespace, &found.id)?;
        if let Some(mut locked) = locked
            && locked.key.is_none()
            && command.session_key.is_some()
        {
            locked.key.clone_from(&command.session_key);
            locked.save(tx)?;
        }
        return Ok(found.id);
    }
    let now = tx.now();
    let id = match &command.session_id {
        Some(id) => id.to_string(),
        None => new.ids.session.to_string(),
    };
    let row = SessionRow {
        namespace: new.namespace.to_string(),
        id,
        key: command.session_key.clone(),
        agent: Some(agent.to_owned()),
        queue: None,
        revision: 0,
        next_entry: 1,
        fence: 0,
        holder_run_id: None,
        created: now,
        updated: now,
        continuable: false,
    };
    row.insert_new(tx)?;
    Ok(row.id)
}
