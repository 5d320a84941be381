//! Durable events: the stored history of a run.
//!
//! A kind is declared in three places: its payload in a module of this folder, its line in the list below, which
//! names the variant, the payload and the stored name, and its row and example in `docs/reference/events.md`.
//! A payload is the body as JSON; messages and results are stored elsewhere, and the body refers to them.
//! The fields of a payload and their order are a stored format: the only allowed change is a new optional field that is
//! omitted when empty.

mod approval;
mod child;
mod input;
mod run;
mod team;
#[cfg(test)]
mod tests;
mod tool;
mod turn;

use serde::de::DeserializeOwned;

pub use self::approval::{ApprovalDecided, ApprovalNeeded, ApprovalVote, VoteChoice};
pub use self::child::ChildStarted;
pub use self::input::{
    InputReceived, InputSteered, InputsDropped, InterruptRequested, Interrupted, RollbackRequested,
    RolledBack, SteerFallback,
};
pub use self::run::{
    Accepted, AttemptStarted, CancelRequested, EndError, Forked, HandedOver, LimitFound, Parked,
    Resumed, RetryScheduled, RunEnded, StateChanged, Stopped, StoredJson, WorkerLost,
    WorkspaceReset,
};
pub use self::team::MemberChanged;
pub use self::tool::{ToolFinished, ToolStarted, WaitingStarted};
pub use self::turn::{
    Compacted, CompactionStarted, DraftDiscarded, OutputRejected, TurnFinished, TurnStarted,
    UserMessage,
};
use super::{AgentHandoff, TeamMessage};
use crate::lifecycle::RunStatus;
use crate::recovery::OutcomeCode;
use crate::text::string_enum::string_enum;

/// Version of the stored events. It rises when a stored body changes in a way that an older reader cannot skip.
pub const DURABLE_EVENT_VERSION: u16 = 1;

/// Declares [`DurableEvent`] and [`DurableEventKind`]: variant, payload and stored name of each kind.
macro_rules! durable_events {
    ($( $(#[$doc:meta])* $variant:ident($payload:ty) = $name:literal ),+ $(,)?) => {
        string_enum! {
            /// Kind of a durable event.
            DurableEventKind, "a kind of durable event" {
                $( $(#[$doc])* $variant = $name ),+
            }
        }

        /// One durable event of a run.
        #[derive(Debug, Clone, PartialEq)]
        pub enum DurableEvent {
            $( $(#[$doc])* $variant($payload), )+
            /// An event of a newer version.
            Unknown {
                /// Stored name of its kind.
                kind: String,
                /// Stored body.
                body: String,
            },
        }

        impl DurableEvent {
            /// Returns the stored name of the kind.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $name, )+
                    Self::Unknown { kind, .. } => kind,
                }
            }

            /// Returns the body as it is stored.
            pub fn body(&self) -> serde_json::Result<String> {
                match self {
                    $( Self::$variant(payload) => serde_json::to_string(payload), )+
                    Self::Unknown { body, .. } => Ok(body.clone()),
                }
            }

            /// Parses the body of a known kind.
            fn parse_known(kind: DurableEventKind, body: &str) -> Result<Self, DurableEventError> {
                match kind {
                    $( DurableEventKind::$variant => payload(kind, body).map(Self::$variant), )+
                }
            }
        }
    };
}

durable_events! {
    /// The run was created.
    Accepted(Accepted) = "accepted",
    /// The run was created as a fork of another run.
    Forked(Forked) = "forked",
    /// A worker claimed the run and starts an attempt.
    AttemptStarted(AttemptStarted) = "attempt_started",
    /// The run waits for a person, a child, a message or an operator.
    Parked(Parked) = "parked",
    /// An operator resumed the run.
    Resumed(Resumed) = "resumed",
    /// A newer message interrupted the run, which starts again.
    Interrupted(Interrupted) = "interrupted",
    /// A worker returned the run to the queue; another attempt follows.
    HandedOver(HandedOver) = "handed_over",
    /// An attempt failed; another attempt follows.
    RetryScheduled(RetryScheduled) = "retry_scheduled",
    /// The worker of the run was lost; another attempt follows.
    WorkerLost(WorkerLost) = "worker_lost",
    /// Cancellation of the run was requested while a worker executed it.
    CancelRequested(CancelRequested) = "cancel_requested",
    /// Files of the run were lost.
    WorkspaceReset(WorkspaceReset) = "workspace_reset",
    /// Values that outlive the run were set or removed.
    StateChanged(StateChanged) = "state_changed",
    /// The run exceeded its limit of tokens, money or time.
    LimitFound(LimitFound) = "limit_found",
    /// The agent was stopped by the caller or by a limit.
    Stopped(Stopped) = "stopped",
    /// The run succeeded.
    Finished(RunEnded) = "finished",
    /// The run failed.
    Failed(RunEnded) = "failed",
    /// The run timed out.
    TimedOut(RunEnded) = "timed_out",
    /// The run was cancelled.
    Cancelled(RunEnded) = "cancelled",
    /// A user message entered the conversation.
    UserMessage(UserMessage) = "user_message",
    /// A model call starts.
    TurnStarted(TurnStarted) = "turn_started",
    /// A model call finished with a response.
    TurnFinished(TurnFinished) = "turn_finished",
    /// A model call is repeated; the deltas of the lost attempt are void.
    DraftDiscarded(DraftDiscarded) = "draft_discarded",
    /// The conversation is about to be shortened.
    CompactionStarted(CompactionStarted) = "compaction_started",
    /// The conversation was shortened to fit the model's context.
    Compacted(Compacted) = "compacted",
    /// A response did not match the output type and was returned to the model.
    OutputRejected(OutputRejected) = "output_rejected",
    /// Another agent continues the conversation.
    HandedOff(AgentHandoff) = "handed_off",
    /// A tool call starts.
    ToolStarted(ToolStarted) = "tool_started",
    /// A tool call finished.
    ToolFinished(ToolFinished) = "tool_finished",
    /// A tool call waits for child runs.
    WaitingStarted(WaitingStarted) = "waiting_started",
    /// The run requests an approval.
    ApprovalNeeded(ApprovalNeeded) = "approval_needed",
    /// An approval request was decided.
    ApprovalDecided(ApprovalDecided) = "approval_decided",
    /// One of several approvers voted.
    ApprovalVote(ApprovalVote) = "approval_vote",
    /// A message enters the run at its next boundary.
    InputSteered(InputSteered) = "input_steered",
    /// The run received the message that it waited for.
    InputReceived(InputReceived) = "input_received",
    /// The input queue was full; some messages were dropped.
    InputsDropped(InputsDropped) = "inputs_dropped",
    /// A message could not enter the run and starts a run of its own.
    SteerFallback(SteerFallback) = "steer_fallback",
    /// A message interrupts the run.
    InterruptRequested(InterruptRequested) = "interrupt_requested",
    /// A message ends the run and removes its messages from the session.
    RollbackRequested(RollbackRequested) = "rollback_requested",
    /// The session was restored to its content before the run.
    RolledBack(RolledBack) = "rolled_back",
    /// A child run was created.
    ChildStarted(ChildStarted) = "child_started",
    /// A member joined the team of the run.
    TeammateSpawned(MemberChanged) = "teammate_spawned",
    /// A member of the team completed its work.
    TeammateComplete(MemberChanged) = "teammate_complete",
    /// A member of the team failed.
    TeammateError(MemberChanged) = "teammate_error",
    /// A member of the team was stopped.
    TeammateStopped(MemberChanged) = "teammate_stopped",
    /// A member of the team sent a message.
    TeamMessage(TeamMessage) = "team_message",
}

/// A stored event whose body does not match its kind.
#[derive(Debug, thiserror::Error)]
#[error("the body of a `{kind}` event: {source}")]
pub struct DurableEventError {
    kind: DurableEventKind,
    source: serde_json::Error,
}

/// Parses a body. Fails with the kind in the error.
fn payload<T: DeserializeOwned>(
    kind: DurableEventKind,
    body: &str,
) -> Result<T, DurableEventError> {
    serde_json::from_str(body).map_err(|source| DurableEventError { kind, source })
}

impl DurableEventKind {
    /// Parses the stored name of a kind. `None` if only a newer version knows the name.
    pub fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// Returns the kind of the last event of a run with the status. `None` if the status is not terminal.
    pub fn of_end(status: RunStatus) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.end_status() == Some(status))
    }

    /// Returns the status of a run that ends with an event of this kind. `None` if the kind does not end a run.
    pub const fn end_status(self) -> Option<RunStatus> {
        match self {
            Self::Finished => Some(RunStatus::Ok),
            Self::Failed => Some(RunStatus::Error),
            Self::TimedOut => Some(RunStatus::Timeout),
            Self::Cancelled => Some(RunStatus::Cancelled),
            _ => None,
        }
    }

    /// Returns true if an event of this kind is the last one of its run.
    pub const fn is_terminal(self) -> bool {
        self.end_status().is_some()
    }
}

impl DurableEvent {
    /// Parses a stored event. A kind of a newer version becomes [`DurableEvent::Unknown`].
    pub fn parse(kind: &str, body: &str) -> Result<Self, DurableEventError> {
        match DurableEventKind::from_name(kind) {
            Some(kind) => Self::parse_known(kind, body),
            None => Ok(Self::Unknown { kind: kind.to_owned(), body: body.to_owned() }),
        }
    }

    /// Returns the terminal event of a run, with the kind of its status. A status that is not terminal counts as
    /// failed.
    pub const fn end(ended: RunEnded) -> Self {
        match ended.status {
            RunStatus::Ok => Self::Finished(ended),
            RunStatus::Timeout => Self::TimedOut(ended),
            RunStatus::Cancelled => Self::Cancelled(ended),
            RunStatus::Error | RunStatus::Accepted | RunStatus::Running => Self::Failed(ended),
        }
    }

    /// Returns true if a message is stored with the event.
    pub const fn has_message(&self) -> bool {
        matches!(self, Self::UserMessage(_) | Self::TurnFinished(_))
    }

    /// Returns the number of the model call that the event finishes. `None` for other kinds.
    pub const fn ended_turn(&self) -> Option<u32> {
        match self {
            Self::TurnFinished(turn) => Some(turn.turn),
            _ => None,
        }
    }

    /// Returns the outcome code of the event. `None` if it has none.
    pub const fn code(&self) -> Option<OutcomeCode> {
        match self {
            Self::Parked(parked) => parked.code,
            Self::RetryScheduled(retry) => Some(retry.code),
            Self::CancelRequested(cancel) => Some(cancel.code),
            Self::Finished(end)
            | Self::Failed(end)
            | Self::TimedOut(end)
            | Self::Cancelled(end) => end.code,
            _ => None,
        }
    }

    /// Returns the description of the error or end that the event reports, for people. `None` if it reports none.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::Parked(parked) => parked.detail.as_deref(),
            Self::RetryScheduled(retry) => Some(&retry.detail),
            Self::HandedOver(handed) => Some(&handed.detail),
            Self::Finished(end)
            | Self::Failed(end)
            | Self::TimedOut(end)
            | Self::Cancelled(end) => end.detail.as_deref(),
            _ => None,
        }
    }

    /// Returns a one-line reason for the event: its detail, else the reason in its payload, else its outcome code.
    /// `None` if it has none of them.
    pub fn reason(&self) -> Option<&str> {
        let reason = match self {
            Self::Parked(parked) => Some(parked.reason.as_str()),
            Self::WorkspaceReset(reset) => Some(reset.reason.as_str()),
            Self::OutputRejected(rejected) => Some(rejected.reason.as_str()),
            Self::HandedOff(handoff) => handoff.reason.as_deref(),
            Self::Stopped(stopped) => Some(stopped.reason.as_str()),
            _ => None,
        };
        self.detail().or(reason).or(self.code().map(OutcomeCode::as_str))
    }
}
