//! Messages on their way into a run, and what the world sees of a run that could take one.

use crate::lifecycle::{Illegal, ParkedFor, RunState};
use crate::text::string_enum::words;

words! {
    /// Where a message stands.
    InputState, "an input state" {
        /// Stored, and nobody has it yet.
        Pending = "pending",
        /// An attempt took it into its conversation.
        Claimed = "claimed",
        /// The model call that contains it is recorded, or the run that began with it has ended.
        Consumed = "consumed",
        /// A newer message, or the limit of waiting ones, took its place.
        Superseded = "superseded",
        /// Its sender took it back.
        Cancelled = "cancelled",
    }
}

words! {
    /// Why a message leaves the queue without an answer.
    InputEvent, "an input event" {
        /// A newer one takes its place, or too many wait.
        Superseded = "superseded",
        /// Its sender takes it back.
        Cancelled = "cancelled",
    }
}

words! {
    /// What the sender of a message is told.
    DeliveryOutcome, "a delivery outcome" {
        /// The run was waiting and has it.
        Direct = "direct",
        /// It will be read later.
        Queued = "queued",
        /// What was being done is cancelled for it.
        Interrupted = "interrupted",
        /// The run had ended; a new one starts with it.
        Restarted = "restarted",
        /// It enters the running turn.
        Steered = "steered",
        /// It becomes one turn with others.
        Collected = "collected",
        /// It is refused: busy.
        Rejected = "rejected",
        /// It was here before.
        Duplicate = "duplicate",
    }
}

words! {
    /// What the world sees of a run that could take a message.
    Interaction, "an interaction state" {
        /// It does something, or is about to.
        Working = "working",
        /// It waits for a message.
        WaitingForInput = "waiting_for_input",
        /// It has ended.
        Closed = "closed",
    }
}

impl InputState {
    /// The state after an event.
    pub const fn next(self, event: InputEvent) -> Result<Self, Illegal> {
        use InputEvent as E;
        Ok(match (self, event) {
            (Self::Pending, E::Superseded) => Self::Superseded,
            (Self::Pending, E::Cancelled) => Self::Cancelled,
            _ => {
                return Err(Illegal {
                    machine: "message",
                    from: self.as_str(),
                    event: event.as_str(),
                    terminal: self.is_terminal(),
                });
            }
        })
    }

    /// True if nothing more happens to it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Consumed | Self::Superseded | Self::Cancelled)
    }
}

impl Interaction {
    /// Read off the run and its waiting messages; never stored, so it cannot go stale.
    ///
    /// A run that waits for an answer and already has one is about to go on: it works.
    pub const fn of(run: RunState, pending: usize) -> Self {
        match run.parked_for() {
            _ if run.is_terminal() => Self::Closed,
            Some(ParkedFor::Question) if pending == 0 => Self::WaitingForInput,
            _ => Self::Working,
        }
    }
}

#[cfg(test)]
mod tests;
