//! A request to start or continue a task, before its transaction.
//!
//! Everything that does not depend on the database is done here, so that the transaction takes values and can run again.

use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::{ApprovalId, RunId, SessionId, TaskId, Timestamp};
use provost_store::Tx;

use super::Memory;
use crate::error::EngineError;
use crate::input::{EncodedMessage, IncomingMessage};

/// A checked command with the stored form of its message.
pub(crate) struct SubmitRequest {
    pub(super) namespace: Namespace,
    pub(super) command: TaskRequest,
    pub(super) memory: Memory,
    message: EncodedMessage,
    /// Idempotency key of the input.
    input_key: String,
}

/// Ids of the rows that a new task begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewIds {
    pub(crate) task: TaskId,
    pub(crate) run: RunId,
    /// The session, if the command names none.
    pub(crate) session: SessionId,
    /// The approval of its start, if its agent asks for one.
    pub(crate) approval: ApprovalId,
}

impl NewIds {
    /// Draws new ids. The run has the id that the command names, if it names one.
    pub(crate) fn draw(tx: &mut Tx<'_>, command: &TaskRequest) -> Self {
        let run = command.run_id.unwrap_or_else(|| tx.id());
        Self { task: tx.id(), run, session: tx.id(), approval: tx.id() }
    }
}

impl SubmitRequest {
    /// Checks the command and encodes what is stored of it.
    pub(crate) fn new(
        namespace: &Namespace,
        command: TaskRequest,
        sent: Timestamp,
    ) -> Result<Self, EngineError> {
        command.validate()?;
        let memory = Memory::of_command(namespace, &command)?;
        Ok(Self {
            namespace: namespace.clone(),
            message: EncodedMessage::new(&command, sent)?,
            input_key: memory.input_key(),
            memory,
            command,
        })
    }

    /// The message of the command.
    pub(super) fn incoming(&self) -> IncomingMessage<'_> {
        IncomingMessage::new(&self.command, &self.message, &self.input_key)
    }
}

/// The JSON that a task stores of its command. The message has a row of its own.
pub(super) fn stored_command(command: &TaskRequest) -> Result<String, EngineError> {
    let stored = TaskRequest { message: Vec::new(), attachments: Vec::new(), ..command.clone() };
    Ok(serde_json::to_string(&stored)?)
}
