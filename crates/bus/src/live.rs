//! Live events of running attempts.

use std::sync::Arc;

use provost_core::{Event, RunId, TaskId};
use serde::{Deserialize, Serialize};

/// Event of a running attempt. The durable log contains every durable event a moment later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveEvent {
    /// Address of the run.
    pub address: Arc<RunAddress>,
    /// Number of the event in its attempt, from zero.
    pub number: u64,
    /// The event.
    pub event: Event,
}

/// Address of a run: its task, session and ancestors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAddress {
    /// Namespace of the run.
    pub namespace: String,
    /// Task of the run.
    pub task: TaskId,
    /// Session of the run.
    pub session: String,
    /// Ancestor tasks with their sessions, nearest first.
    pub ancestors: Vec<(TaskId, String)>,
    /// Id of the run.
    pub run: RunId,
    /// Epoch of the attempt.
    pub epoch: u64,
}
