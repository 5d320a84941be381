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
    /// Transition that removes an input from the queue unanswered.
    InputTransition, "an input event" {
        /// A newer message replaces it, or the queue is full.
        Superseded = "superseded",
        /// Its sender withdraws it.
        Cancelled = "cancelled",
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

impl InputState {
    /// Returns the state after a transition. Fails if the state does not permit it.
    pub const fn apply(self, event: InputTransition) -> Result<Self, InvalidTransition> {
        use InputTransition as E;
        Ok(match (self, event) {
            (Self::Pending, E::Superseded) => Self::Superseded,
            (Self::Pending, E::Cancelled) => Self::Cancelled,
            _ => {
                return Err(InvalidTransition {
                    machine: "message",
                    from: self.as_str(),
                    transition: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
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
