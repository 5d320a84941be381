//! Live events of running attempts.

use std::sync::Arc;

use provost_core::{Event, RunId, TaskId};

/// An event of an attempt that runs in this process. The durable log has everything that counts, a moment later.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveEvent {
    /// The run and its ancestors.
    pub place: Arc<RunAddress>,
    /// The number of the event in its attempt, from zero.
    pub number: u64,
    /// The event.
    pub event: Event,
}

/// The run of a live event, with its task, session and ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAddress {
    /// The namespace.
    pub namespace: String,
    /// The task.
    pub task: TaskId,
    /// The session.
    pub session: String,
    /// The ancestor tasks with their sessions, nearest first.
    pub above: Vec<(TaskId, String)>,
    /// The run.
    pub run: RunId,
    /// The epoch of the attempt.
    pub epoch: u64,
}
