//! What becomes of a command before the transaction that takes it in: that one holds up all others, so whatever does not depend on
//! the database is made beforehand.

use std::mem;

use provost_core::work::{AgentCommand, Namespace};
use provost_core::{Env, RunId, TaskId, TypedId};

use super::Memory;
use crate::error::EngineError;
use crate::input::Written;

/// A command that was checked, and what is stored of it if it begins a task.
pub(crate) struct Draft {
    pub(crate) command: AgentCommand,
    pub(super) memory: Memory,
    /// The task that it begins. What else begins with it has the same digits in its id.
    pub(super) task: TaskId,
    /// The run that it begins: the one that the command names, or a new one.
    pub(crate) run: RunId,
    /// The command as its task keeps it: its message has a row of its own.
    pub(super) kept: String,
    /// Its message.
    pub(super) written: Written,
}

impl Draft {
    /// Checks the command and writes down what can be.
    pub(crate) fn new(
        namespace: &Namespace,
        mut command: AgentCommand,
        env: &Env,
    ) -> Result<Self, EngineError> {
        command.validate()?;
        let memory = Memory::of_command(namespace, &command)?;
        let task: TaskId = env.id();
        let written = Written::first(&command, env, task)?;
        let said = (mem::take(&mut command.message), mem::take(&mut command.attachments));
        let kept = serde_json::to_string(&command)?;
        (command.message, command.attachments) = said;
        Ok(Self {
            memory,
            task,
            run: command.run_id.unwrap_or_else(|| task.kin()),
            kept,
            written,
            command,
        })
    }
}
