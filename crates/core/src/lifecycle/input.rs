//! Inputs: messages for a session whose run is active.

use crate::lifecycle::{InvalidTransition, RunState, WaitReason};
use crate::text::string_enum::string_enum;

string_enum! {
    /// State of an input.
    InputState, "an input state" {
        /// Stored, and not yet claimed by an attempt.
        Pending = "pending",
        /// An attempt has added it to its conversation.
        Claimed = "claimed",
        /// The model call that contains it is recorded, or the run that started with it has ended.
        Consumed = "consumed",
        /// Replaced by a newer message, or dropped because the queue was full.
        Superseded = "superseded",
        /// Withdrawn by its sender.
        Cancelled = "cancelled",
    }
}

string_enum! {
    /// Kind of an input.
    InputKind, "an input kind" {
        /// A message of a user or a program.
        Message = "message",
        /// A summary of inputs that were dropped because the queue was full.
        Summary = "summary",
        /// The result of a child run.
        ChildResult = "child_result",
    }
}

string_enum! {
    /// Transition of an input.
    InputTransition, "an input event" {
        /// A run adds it to its conversation.
        Claimed = "claimed",
        /// The model call that contains it is recorded, or the run that started with it has ended.
        Consumed = "consumed",
        /// It is the answer to a question of the run.
        Answered = "answered",
        /// Its run ends before a model has answered it, and a later run reads it again.
        Requeued = "requeued",
        /// A newer message replaces it, or the queue is full.
        Superseded = "superseded",
        /// Its sender withdraws it.
        Cancelled = "cancelled",
        /// Its run is cancelled before a model has answered it.
        RunCancelled = "run_cancelled",
        /// Its run is rolled back.
        RolledBack = "rolled_back",
    }
}

string_enum! {
    /// Result of submitting an input, as reported to the sender.
    InputOutcome as "DeliveryOutcome", "a delivery outcome" {
        /// A waiting run received it immediately.
        Direct = "direct",
        /// Queued for later.
        Queued = "queued",
        /// The current activity of the run is cancelled for it.
        Interrupted = "interrupted",
        /// The run had ended; a new run starts with it.
        Restarted = "restarted",
        /// It enters the current turn.
        Steered = "steered",
        /// It is collected with other inputs into one turn.
        Collected = "collected",
        /// Rejected because the run is busy.
        Rejected = "rejected",
        /// It was submitted before.
        Duplicate = "duplicate",
    }
}

string_enum! {
    /// Public state of a run with respect to input.
    InteractionState as "Interaction", "an interaction state" {
        /// The run is executing or will continue without input.
        Working = "working",
        /// The run waits for a message.
        WaitingForInput = "waiting_for_input",
        /// The run has ended.
        Closed = "closed",
    }
}

impl InputTransition {
    /// Returns the state after the transition, which does not depend on the state before it.
    pub const fn target(self) -> InputState {
        match self {
            Self::Claimed => InputState::Claimed,
            Self::Consumed | Self::Answered => InputState::Consumed,
            Self::Requeued => InputState::Pending,
            Self::Superseded | Self::RolledBack => InputState::Superseded,
            Self::Cancelled | Self::RunCancelled => InputState::Cancelled,
        }
    }
}

impl InputState {
    /// Returns the state after a transition. Fails if the state does not permit it.
    pub const fn apply(self, event: InputTransition) -> Result<Self, InvalidTransition> {
        use InputTransition as E;
        match (self, event) {
            (Self::Pending, E::Claimed | E::Answered | E::Superseded | E::Cancelled)
            | (Self::Claimed, E::Consumed)
            | (Self::Pending | Self::Claimed, E::Requeued | E::RunCancelled | E::RolledBack) => {
                Ok(event.target())
            }
            _ => Err(InvalidTransition {
                machine: "message",
                from: self.as_str(),
                transition: event.as_str(),
                terminal: self.is_terminal(),
            }),
        }
    }

    /// Returns the states that permit a transition.
    pub fn sources(event: InputTransition) -> Vec<Self> {
        Self::ALL.iter().copied().filter(|state| state.apply(event).is_ok()).collect()
    }

    /// Returns true if the input cannot change any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Consumed | Self::Superseded | Self::Cancelled)
    }
}

impl InteractionState {
    /// Computes the state from the run and the number of its pending inputs. The result is never stored, so it cannot
    /// become stale.
    ///
    /// A run that waits for an answer and already has a pending input is about to continue, so its state is
    /// `Working`.
    pub const fn of(run: RunState, pending: usize) -> Self {
        match run.wait_reason() {
            _ if run.is_terminal() => Self::Closed,
            Some(WaitReason::Question) if pending == 0 => Self::WaitingForInput,
            _ => Self::Working,
        }
    }
}

#[cfg(test)]
mod tests;
