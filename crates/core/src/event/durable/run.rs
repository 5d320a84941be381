//! Payloads of events about the lifecycle of a run and its attempts.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lifecycle::{AttemptReason, RunStatus, WaitReason};
use crate::recovery::OutcomeCode;
use crate::{ErrorKind, InputId, RunId, StateChange, StopReason, TaskId, Timestamp, WorkerId};

/// The run was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Inputs that the run answers.
    pub inputs: Vec<InputId>,
    /// Number of the run within its task.
    pub ordinal: u64,
    /// Session of the run.
    pub session: String,
    /// Task of the run.
    pub task: TaskId,
}

/// The run was created as a fork of another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// Forked run.
    pub from: RunId,
    /// Number of journal entries that both runs share. `None` if the fork repeats the run from the beginning.
    #[serde(rename = "fed")]
    pub entries: Option<u64>,
}

/// A worker claimed the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// Number of the attempt, from one.
    pub attempt: u64,
    /// Reason for the attempt.
    pub strategy: AttemptReason,
    /// Worker that claimed the run.
    pub worker: WorkerId,
}

/// The run parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Reason why the run waits.
    #[serde(rename = "for")]
    pub reason: WaitReason,
    /// Error that an operator must handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<OutcomeCode>,
    /// Description of that error, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An operator resumed the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Name of the operator.
    pub by: String,
}

/// A worker returned the run to the queue without an error of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// Attempt that ended.
    pub attempt: u64,
    /// Reason, for people.
    pub detail: String,
}

/// An attempt failed, and the run is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryScheduled {
    /// Error of the attempt.
    pub code: OutcomeCode,
    /// Description of the error, for people.
    pub detail: String,
    /// Earliest time of the next attempt.
    pub at: Timestamp,
    /// Number of failed attempts so far.
    pub failures: u64,
}

/// The worker of the run was lost, and the run is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerLost {
    /// Attempt that ended.
    pub attempt: u64,
    /// Number of workers lost since the last progress.
    pub crashes: u64,
    /// Earliest time of the next attempt.
    pub at: Timestamp,
}

/// Cancellation was requested for a run that a worker executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequested {
    /// Reason for the cancellation.
    pub code: OutcomeCode,
}

/// Files of the run were lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceReset {
    /// Attempt that noticed the loss.
    pub attempt: u64,
    /// Description of the loss and its cause.
    pub reason: String,
}

/// Values that outlive the run changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChanged {
    /// The new values.
    pub changes: Vec<StateChange>,
}

/// The run exceeded its limit of tokens, money or time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitFound {
    /// Step that records the limit.
    pub step: u64,
}

/// The agent was stopped by the caller or by a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Reason.
    pub reason: StopReason,
}

/// The run ended: payload of all terminal events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// Outcome code. `None` for a successful run.
    pub code: Option<OutcomeCode>,
    /// Reason, for people.
    pub detail: Option<String>,
    /// Result of a successful run: a [`RunSummary`](crate::RunSummary).
    pub result: Option<StoredJson>,
    /// Final status of the run.
    pub status: RunStatus,
    /// Error of a run that failed or timed out; `detail` describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EndError>,
}

/// Classification of the error that ended a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Stable code of the error, such as `context_length`.
    pub code: String,
}

/// JSON text that is stored and sent byte for byte.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredJson(Box<RawValue>);

impl StoredJson {
    /// Wraps a text. Fails if it is not JSON.
    pub fn new(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(Self)
    }

    /// Returns the stored text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for StoredJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
