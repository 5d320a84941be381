//! A submission before its transaction.
//!
//! Everything that does not depend on the database is computed here, so that the transaction gets values and can run
//! again.

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::{ApprovalId, RunId, SessionId, TaskId, Timestamp};
use provost_store::Tx;

use super::IdempotencyRecord;
use crate::error::EngineError;
use crate::input::{EncodedMessage, IncomingMessage};

/// A validated task request with the stored form of its message.
pub(crate) struct SubmitRequest {
    pub(super) namespace: Namespace,
    pub(super) command: TaskRequest,
    pub(super) idempotency: IdempotencyRecord,
    message: EncodedMessage,
    /// Idempotency key of the input.
    input_key: String,
}

/// Ids of the rows of a new task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewIds {
    pub(crate) task: TaskId,
    pub(crate) run: RunId,
    /// Id of the session, if the request names none.
    pub(crate) session: SessionId,
    /// Id of the approval of the start, if the agent requires one.
    pub(crate) approval: ApprovalId,
}

impl NewIds {
    /// Draws new ids. The run gets the id that the request names, if there is one.
    pub(crate) fn draw(tx: &mut Tx<'_>, command: &TaskRequest) -> Self {
        let run = command.run_id.unwrap_or_else(|| tx.id());
        Self { task: tx.id(), run, session: tx.id(), approval: tx.id() }
    }
}

impl SubmitRequest {
    /// Validates the request and encodes its message.
    pub(crate) fn new(
        namespace: &Namespace,
        command: TaskRequest,
        sent: Timestamp,
    ) -> Result<Self, EngineError> {
        command.validate()?;
        let idempotency = IdempotencyRecord::of_command(namespace, &command)?;
        Ok(Self {
            namespace: namespace.clone(),
            message: EncodedMessage::new(&command, sent)?,
            input_key: idempotency.input_key(),
            idempotency,
            command,
        })
    }

    /// Returns the message of the request.
    pub(super) fn incoming(&self) -> IncomingMessage<'_> {
        IncomingMessage::new(&self.command, &self.message, &self.input_key)
    }
}

/// Returns the stored form of a task request. The message has a row of its own.
pub(super) fn stored_command(command: &TaskRequest) -> Result<String, EngineError> {
    let stored = TaskRequest { message: Vec::new(), attachments: Vec::new(), ..command.clone() };
    Ok(serde_json::to_string(&stored)?)
}
