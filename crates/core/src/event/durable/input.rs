//! Payloads of events about messages that arrive while a run is live.

use serde::{Deserialize, Serialize};

use crate::scheduling::DropPolicy;
use crate::{InputId, RunId};

/// A message enters the run at its next boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputSteered {
    /// The message.
    pub input: InputId,
}

/// The run waited for a message and got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReceived {
    /// The message.
    pub input: InputId,
}

/// Too many messages waited, and some were dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputsDropped {
    /// Messages that were dropped.
    pub inputs: Vec<InputId>,
    /// Rule that chose them.
    pub policy: DropPolicy,
    /// Messages that may wait.
    pub cap: u64,
}

/// A message could not enter the run and begins a run of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SteerFallback {
    /// In the run that the message was meant for.
    Redirected {
        /// The message.
        input: InputId,
        /// Run that answers the message.
        run: RunId,
    },
    /// In the run that answers messages which another run has not read.
    TakenOver {
        /// Run that the messages were meant for.
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

/// The run begins again with a newer message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Interrupted {
    /// The run had begun.
    Attempt {
        /// Attempt that was interrupted.
        attempt: u64,
    },
    /// No worker had claimed the run.
    BeforeStart(InterruptRequested),
}

/// A message ends the run and takes back what the run added to the session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackRequested {
    /// The message.
    pub input: InputId,
    /// Run that answers the message.
    pub run: RunId,
    /// Older messages that it replaces.
    pub superseded: Vec<InputId>,
}

/// The session is what it was before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolledBack {
    /// Entries of the run that left the session.
    pub left: u64,
    /// Older entries that came back.
    pub restored: u64,
}
