//! Payloads of events about the life of a run and its attempts.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::lifecycle::{ParkedFor, RunStatus, Strategy};
use crate::recovery::OutcomeCode;
use crate::{ErrorKind, InputId, RunId, StateChange, StopReason, TaskId, Timestamp, WorkerId};

/// The run was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Inputs that the run answers.
    pub inputs: Vec<InputId>,
    /// Number of the run in its task.
    pub ordinal: u64,
    /// Session of the run.
    pub session: String,
    /// Task of the run.
    pub task: TaskId,
}

/// The run was created as a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// Run that was forked.
    pub from: RunId,
    /// Feeds that both runs share; none if the fork repeats its run from the beginning.
    pub fed: Option<u64>,
}

/// A worker claimed the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// Number of the attempt, from one.
    pub attempt: u64,
    /// Reason for the attempt.
    pub strategy: Strategy,
    /// Worker that claimed the run.
    pub worker: WorkerId,
}

/// The run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// What the run waits for.
    #[serde(rename = "for")]
    pub waits_for: ParkedFor,
    /// Error that an operator looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<OutcomeCode>,
    /// Error that an operator looks at, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An operator resumed the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Name of the operator.
    pub by: String,
}

/// A worker gave the run back without a fault of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOver {
    /// Attempt that ended.
    pub attempt: u64,
    /// Reason, in words.
    pub detail: String,
}

/// An attempt failed, and the run is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryScheduled {
    /// Error of the attempt.
    pub code: OutcomeCode,
    /// Error of the attempt, in words.
    pub detail: String,
    /// Earliest time of the next attempt.
    pub at: Timestamp,
    /// Failed attempts so far.
    pub failures: u64,
}

/// The worker of the run was lost, and the run is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerLost {
    /// Attempt that ended.
    pub attempt: u64,
    /// Lost workers since the last progress.
    pub crashes: u64,
    /// Earliest time of the next attempt.
    pub at: Timestamp,
}

/// Somebody asked for the end of a run that a worker holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequested {
    /// Reason.
    pub code: OutcomeCode,
}

/// Files of the run were lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceReset {
    /// Attempt that noticed the loss.
    pub attempt: u64,
    /// What was lost and why.
    pub reason: String,
}

/// Values that outlive the run changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChanged {
    /// The new values.
    pub changes: Vec<StateChange>,
}

/// Tokens, money or time of the run were used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitFound {
    /// Step that records it.
    pub step: u64,
}

/// The agent was stopped from outside or by a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Reason.
    pub reason: StopReason,
}

/// The run ended: payload of all terminal events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnded {
    /// Reason for an end that is not a success.
    pub code: Option<OutcomeCode>,
    /// Reason, in words.
    pub detail: Option<String>,
    /// Result of a successful run: a [`RunSummary`](crate::RunSummary).
    pub result: Option<StoredJson>,
    /// Status of the run.
    pub status: RunStatus,
    /// Error of a run that failed or ran out of time; `detail` describes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EndError>,
}

/// Class of the error that ended a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// A stable, finer code such as `context_length`.
    pub code: String,
}

/// A JSON text that is copied as it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredJson(Box<RawValue>);

impl StoredJson {
    /// Checks that the text is JSON.
    pub fn new(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(Self)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for StoredJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
