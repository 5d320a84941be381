//! What was asked: its states, and the one function that moves it when a run ends.
//!
//! Invariant: a shortage of capacity is never a reason to drop a task. It waits.

use crate::RunId;
use crate::lifecycle::{Illegal, RunStatus};
use crate::text::string_enum::words;

words! {
    /// Where a task stands.
    TaskState, "a task state" {
        /// Waits for a worker.
        Queued = "queued",
        /// A run answers it.
        Running = "running",
        /// Waits for a person.
        Waiting = "waiting",
        /// Waits for a moment.
        Sleeping = "sleeping",
        /// Answered.
        Done = "done",
        /// Failed.
        Error = "error",
        /// Never begun, for a reason that is recorded.
        Dropped = "dropped",
        /// Somebody asked for its end.
        Cancelled = "cancelled",
    }
}

words! {
    /// What happens to a task.
    TaskEvent, "a task event" {
        /// A worker claims its run.
        Dispatched = "dispatched",
        /// Its run goes back to the queue: a retry, or what it waited for is there.
        Requeued = "requeued",
        /// A message reached its living run.
        InputDelivered = "input_delivered",
        /// Its run asked a person something.
        AwaitsInput = "awaits_input",
        /// Its run asked to be woken later.
        FellAsleep = "fell_asleep",
        /// Its run ended well.
        Finished = "finished",
        /// Its run ended with an error, or its time was over.
        Failed = "failed",
        /// Somebody asked for its end.
        Cancelled = "cancelled",
        /// It cannot be begun.
        Dropped = "dropped",
        /// A message came after the end: a new run of the same task.
        Reopened = "reopened",
        /// Somebody asked to try it once more.
        Retried = "retried",
    }
}

impl TaskState {
    /// The state of a task that was just accepted.
    pub const fn accepted(delayed: bool) -> Self {
        if delayed { Self::Sleeping } else { Self::Queued }
    }

    /// The state after an event.
    ///
    /// An end is left only by a new message or by an explicit retry, both of which begin a new run.
    pub const fn next(self, event: TaskEvent) -> Result<Self, Illegal> {
        use TaskEvent as E;
        Ok(match (self, event) {
            (Self::Queued | Self::Sleeping | Self::Running, E::Dispatched) => Self::Running,
            (Self::Queued | Self::Running | Self::Waiting | Self::Sleeping, E::Requeued) => {
                Self::Queued
            }
            (Self::Running | Self::Waiting, E::InputDelivered) => Self::Running,
            (Self::Running | Self::Waiting, E::AwaitsInput) => Self::Waiting,
            (Self::Running, E::FellAsleep) => Self::Sleeping,
            (Self::Running | Self::Waiting, E::Finished) => Self::Done,
            (Self::Queued | Self::Running | Self::Waiting | Self::Sleeping, E::Failed) => {
                Self::Error
            }
            (Self::Queued | Self::Running | Self::Waiting | Self::Sleeping, E::Cancelled) => {
                Self::Cancelled
            }
            (Self::Queued | Self::Running, E::Dropped) => Self::Dropped,
            (Self::Done | Self::Error | Self::Dropped | Self::Cancelled, E::Reopened)
            | (Self::Error | Self::Dropped, E::Retried) => Self::Queued,
            _ => {
                return Err(Illegal {
                    machine: "task",
                    from: self.as_str(),
                    event: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// True if it has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Dropped | Self::Cancelled)
    }

    /// May it be put away? Only what has ended, or waits for a person who no longer cares.
    pub const fn can_archive(self) -> bool {
        self.is_terminal() || matches!(self, Self::Waiting)
    }
}

/// What a run's end means for its task; `None` if the status is no end.
pub const fn task_event(status: RunStatus) -> Option<TaskEvent> {
    match status {
        RunStatus::Accepted | RunStatus::Running => None,
        RunStatus::Ok => Some(TaskEvent::Finished),
        RunStatus::Error | RunStatus::Timeout => Some(TaskEvent::Failed),
        RunStatus::Cancelled => Some(TaskEvent::Cancelled),
    }
}

/// A run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedRun {
    /// Which.
    pub id: RunId,
    /// How.
    pub status: RunStatus,
}

/// Where a task stands after one of its runs ended, or `None` if that changes nothing.
///
/// The only way a run's end moves its task. Only the run that answers for the task now (`current`) moves it, so a late or
/// repeated end is ignored.
pub fn settle(state: TaskState, current: Option<RunId>, ended: EndedRun) -> Option<TaskState> {
    if current != Some(ended.id) || state.is_terminal() {
        return None;
    }
    let event = task_event(ended.status)?;
    state.next(event).ok().filter(|next| *next != state)
}

#[cfg(test)]
mod tests;
