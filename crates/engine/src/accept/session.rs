//! The session a command speaks of.

use provost_core::work::{AgentCommand, Namespace, WorkError};
use provost_core::{SessionId, TaskId, TypedId};
use provost_store::Tx;
use provost_store::row::session::{self, SessionRow};

use crate::error::EngineError;

/// The session that a command names, by id or by key, if there is one.
pub(super) fn named(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    command: &AgentCommand,
) -> Result<Option<SessionRow>, EngineError> {
    let by_key = match &command.session_key {
        Some(key) => session::by_key(tx, namespace.as_str(), key)?,
        None => None,
    };
    let Some(id) = &command.session_id else { return Ok(by_key) };
    if by_key.as_ref().is_some_and(|row| row.id != id.as_str()) {
        let problem = "it belongs to another session";
        let fix = "leave out session_id to speak to that one, or use another key";
        return Err(WorkError::invalid("command.session_key", problem, fix).into());
    }
    Ok(session::get(tx, namespace.as_str(), id.as_str())?)
}

/// The session of a command that begins a task: the one it names, or a new one. True if it is new, so that no run is in it.
pub(super) fn open(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    (command, task): (&AgentCommand, TaskId),
    known: Option<SessionRow>,
    agent: &str,
) -> Result<(String, bool), EngineError> {
    if let Some(mut known) = known {
        if known.key.is_none() && command.session_key.is_some() {
            known.key.clone_from(&command.session_key);
            known.update(tx)?;
        }
        return Ok((known.id, false));
    }
    let now = tx.now();
    let id = match &command.session_id {
        Some(id) => id.to_string(),
        None => task.kin::<SessionId>().to_string(),
    };
    let new = SessionRow {
        namespace: namespace.to_string(),
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
    };
    let is_new = new.insert_new(tx)?;
    Ok((new.id, is_new))
}
