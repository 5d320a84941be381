//! Payloads of events about messages that arrive while a run is active.

use serde::{Deserialize, Serialize};

use crate::scheduling::OverflowPolicy;
use crate::{InputId, RunId};

/// A message enters the run at its next boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSteered {
    /// The message.
    pub input: InputId,
}

/// The run received the message that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReceived {
    /// The message.
    pub input: InputId,
}

/// The input queue was full, and some messages were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputsDropped {
    /// Dropped messages.
    pub inputs: Vec<InputId>,
    /// Policy that selected them.
    pub policy: OverflowPolicy,
    /// Capacity of the queue.
    pub cap: u64,
}

/// A message could not enter the run and starts a run of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SteerFallback {
    /// Recorded in the run that the message was sent to.
    Redirected {
        /// The message.
        input: InputId,
        /// Run that answers the message.
        run: RunId,
    },
    /// Recorded in the run that handles the messages which another run has not read.
    TakenOver {
        /// Run that the messages were sent to.
        from: RunId,
    },
}

/// A message interrupts the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptRequested {
    /// The message.
    pub input: InputId,
    /// Older messages that it replaces.
    pub superseded: Vec<InputId>,
}

/// A newer message interrupted the run, which starts again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Interrupted {
    /// An attempt was interrupted.
    Attempt {
        /// Number of the attempt.
        attempt: u64,
    },
    /// No worker had claimed the run yet.
    BeforeStart(InterruptRequested),
}

/// A message ends the run and removes the run's messages from the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackRequested {
    /// The message.
    pub input: InputId,
    /// Run that answers the message.
    pub run: RunId,
    /// Older messages that it replaces.
    pub superseded: Vec<InputId>,
}

/// The session was restored to its content before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// Number of messages of the run that were removed from the session.
    pub left: u64,
    /// Number of older messages that were restored.
    pub restored: u64,
}
