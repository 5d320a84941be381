//! State machine of a task, and the function that advances a task when one of its runs ends.
//!
//! Invariant: a lack of capacity never drops a task. The task waits.

use crate::RunId;
use crate::lifecycle::{InvalidTransition, RunStatus};
use crate::text::string_enum::string_enum;

string_enum! {
    /// State of a task.
    TaskState, "a task state" {
        /// Waits for a worker.
        Queued = "queued",
        /// A run is executing it.
        Running = "running",
        /// Waits for a person.
        Waiting = "waiting",
        /// Waits until a point in time.
        Sleeping = "sleeping",
        /// Completed.
        Done = "done",
        /// Failed.
        Error = "error",
        /// Never started, for a recorded reason.
        Dropped = "dropped",
        /// Cancelled on request.
        Cancelled = "cancelled",
    }
}

string_enum! {
    /// Transition of a task.
    TaskTransition, "a task event" {
        /// A worker claims its run.
        Dispatched = "dispatched",
        /// Its run is requeued, for a retry or because the wait is over.
        Requeued = "requeued",
        /// An input reached its active run.
        InputDelivered = "input_delivered",
        /// Its run waits for a person.
        WaitingForInput = "awaits_input",
        /// Its run waits until a point in time.
        Delayed = "fell_asleep",
        /// Its run succeeded.
        Finished = "finished",
        /// Its run failed or reached its time limit.
        Failed = "failed",
        /// It is cancelled on request.
        Cancelled = "cancelled",
        /// It cannot be started.
        Dropped = "dropped",
        /// An input arrived after the end; a new run of the same task starts.
        Reopened = "reopened",
        /// A retry was requested.
        Retried = "retried",
    }
}

impl TaskState {
    /// Returns the first state of a task.
    pub const fn accepted(delayed: bool) -> Self {
        if delayed { Self::Sleeping } else { Self::Queued }
    }

    /// Returns the state after a transition.
    ///
    /// Only a new input or an explicit retry leaves a terminal state. Both start a new run.
    pub const fn apply(self, event: TaskTransition) -> Result<Self, InvalidTransition> {
        use TaskTransition as E;
        Ok(match (self, event) {
            (Self::Queued | Self::Sleeping | Self::Running, E::Dispatched) => Self::Running,
            (Self::Queued | Self::Running | Self::Waiting | Self::Sleeping, E::Requeued) => {
                Self::Queued
            }
            (Self::Running | Self::Waiting, E::InputDelivered) => Self::Running,
            (Self::Running | Self::Waiting, E::WaitingForInput) => Self::Waiting,
            (Self::Running, E::Delayed) => Self::Sleeping,
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
                return Err(InvalidTransition {
                    machine: "task",
                    from: self.as_str(),
                    transition: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// Returns true if the task has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Dropped | Self::Cancelled)
    }

    /// Returns true if the task can be archived: it has ended, or it waits for a person.
    pub const fn can_archive(self) -> bool {
        self.is_terminal() || matches!(self, Self::Waiting)
    }
}

/// Returns the transition of a task whose run ends with `status`, or `None` if `status` is not terminal.
pub const fn task_transition_after_run(status: RunStatus) -> Option<TaskTransition> {
    match status {
        RunStatus::Accepted | RunStatus::Running => None,
        RunStatus::Ok => Some(TaskTransition::Finished),
        RunStatus::Error | RunStatus::Timeout => Some(TaskTransition::Failed),
        RunStatus::Cancelled => Some(TaskTransition::Cancelled),
    }
}

/// A run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedRun {
    /// Id of the run.
    pub id: RunId,
    /// Terminal status of the run.
    pub status: RunStatus,
}

/// Returns the state of a task after one of its runs has ended, or `None` if the task does not change.
///
/// The end of a run changes a task only through this function. Only the task's current run has an effect, so a late
/// or repeated end is ignored.
pub fn task_state_after_run(
    state: TaskState,
    current: Option<RunId>,
    ended: FinishedRun,
) -> Option<TaskState> {
    if current != Some(ended.id) || state.is_terminal() {
        return None;
    }
    let event = task_transition_after_run(ended.status)?;
    state.apply(event).ok().filter(|next| *next != state)
}

#[cfg(test)]
mod tests;
