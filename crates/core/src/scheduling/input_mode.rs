//! Queueing of messages for a session with an active run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::env::time::millis;
use crate::lifecycle::{InputOutcome, InteractionState, RequestError, RunState, RunStatus};
use crate::text::string_enum::string_enum;
use crate::usage::limits::{
    INPUT_DEBOUNCE_DEFAULT, INPUT_DEBOUNCE_MAX, INPUTS_PENDING_DEFAULT, INPUTS_PENDING_MAX,
};

string_enum! {
    /// Handling of a message while a run is active.
    #[derive(Default)]
    InputMode as "QueueMode", "a queue mode" {
        /// A new task after the active one.
        Queue = "queue",
        /// The next turn of the same task. The default for programs.
        #[default]
        Followup = "followup",
        /// The next turn of the same task, together with other waiting messages.
        Collect = "collect",
        /// The active turn, at its next step. The default for chats.
        Steer = "steer" or "steer-backlog",
        /// Cancels the active turn.
        Interrupt = "interrupt",
        /// Rejected while a run is active.
        Reject = "reject",
        /// Cancels the active turn and removes its steps from the conversation.
        Rollback = "rollback",
    }
}

string_enum! {
    /// Handling of a message when the queue is full.
    #[derive(Default)]
    OverflowPolicy as "DropPolicy", "a drop policy" {
        /// Remove the oldest messages.
        DropOldest = "old",
        /// Reject the new message.
        RejectNew = "new",
        /// Replace the oldest messages with a summary.
        #[default]
        Summarize = "summarize",
    }
}

string_enum! {
    /// State of the run that a message meets.
    InputTargetState, "a situation" {
        /// The run waits for this message.
        WaitingForInput = "waiting_for_input",
        /// The run is active and reads messages between steps.
        CanSteer = "working_can_steer",
        /// The run is active or queued and reads no messages now.
        CannotSteer = "working_cannot_steer",
        /// There is no open run.
        Closed = "closed",
    }
}

string_enum! {
    /// Action for a message.
    InputAction, "an input action" {
        /// Deliver it to the waiting run.
        Deliver = "deliver",
        /// Queue it as a new task.
        QueueNewTask = "queue_new_task",
        /// Queue it for the next turn of the same task.
        QueueSameTask = "queue_same_task",
        /// Steering is not possible: queue it for the next turn of the same task and emit an event.
        QueueAsFallback = "queue_as_fallback",
        /// Queue it for the next turn of the same task, together with other waiting messages.
        Collect = "collect",
        /// Add it to the active turn.
        Steer = "steer",
        /// Cancel the attempt. A new one starts with this message when the old one has settled.
        Interrupt = "interrupt",
        /// Cancel the attempt and remove the steps of its turn from the conversation.
        Rollback = "rollback",
        /// Reject it because the session is busy.
        Reject = "reject",
        /// Start a new run of the same task with it.
        Restart = "restart",
    }
}

impl InputAction {
    /// Returns the outcome for the caller.
    pub const fn outcome(self) -> InputOutcome {
        match self {
            Self::Deliver => InputOutcome::Direct,
            Self::QueueNewTask | Self::QueueSameTask | Self::QueueAsFallback => {
                InputOutcome::Queued
            }
            Self::Collect => InputOutcome::Collected,
            Self::Steer => InputOutcome::Steered,
            Self::Interrupt | Self::Rollback => InputOutcome::Interrupted,
            Self::Reject => InputOutcome::Rejected,
            Self::Restart => InputOutcome::Restarted,
        }
    }
}

impl InputTargetState {
    /// Returns the state that a message meets. `takes_steering` is true if the agent reads messages in the middle of a
    /// turn.
    pub const fn of(run: RunState, pending: usize, takes_steering: bool) -> Self {
        match InteractionState::of(run, pending) {
            InteractionState::WaitingForInput => Self::WaitingForInput,
            InteractionState::Closed => Self::Closed,
            InteractionState::Working => {
                let begun = matches!(run.status(), RunStatus::Running);
                if begun && takes_steering { Self::CanSteer } else { Self::CannotSteer }
            }
        }
    }
}

impl InputMode {
    /// Returns the action for a message of this mode. Every message is stored first.
    pub const fn route(self, situation: InputTargetState) -> InputAction {
        match (situation, self) {
            (InputTargetState::WaitingForInput, _) => InputAction::Deliver,
            (InputTargetState::Closed, _) => InputAction::Restart,
            (_, Self::Queue) => InputAction::QueueNewTask,
            (_, Self::Followup) => InputAction::QueueSameTask,
            (_, Self::Collect) => InputAction::Collect,
            (InputTargetState::CanSteer, Self::Steer) => InputAction::Steer,
            (InputTargetState::CannotSteer, Self::Steer) => InputAction::QueueAsFallback,
            (_, Self::Interrupt) => InputAction::Interrupt,
            (_, Self::Rollback) => InputAction::Rollback,
            (_, Self::Reject) => InputAction::Reject,
        }
    }
}

/// Queue settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputQueueSettings {
    /// Default mode of a message.
    pub mode: InputMode,
    /// Maximum number of waiting messages.
    pub cap: usize,
    /// Quiet period after which collected messages become one turn.
    #[serde(rename = "debounce_ms", with = "millis")]
    #[schemars(with = "u64")]
    pub debounce: Duration,
    /// Handling of a message when the queue is full.
    pub drop: OverflowPolicy,
}

impl Default for InputQueueSettings {
    fn default() -> Self {
        Self {
            mode: InputMode::default(),
            cap: INPUTS_PENDING_DEFAULT,
            debounce: INPUT_DEBOUNCE_DEFAULT,
            drop: OverflowPolicy::default(),
        }
    }
}

/// Queue settings of one layer. `None` leaves a setting unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "QueueOverride")]
pub struct InputQueueOverride {
    /// Default mode.
    pub mode: Option<InputMode>,
    /// Maximum number of waiting messages.
    pub cap: Option<usize>,
    /// Quiet period in milliseconds.
    pub debounce_ms: Option<u64>,
    /// Handling of a message when the queue is full.
    pub drop: Option<OverflowPolicy>,
}

/// Decision about one more waiting message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverflowDecision {
    /// Accept it.
    Accept,
    /// Reject it.
    Reject,
    /// Accept it and remove the oldest messages.
    DropOldest {
        /// Number of removed messages.
        count: usize,
        /// True to replace them with a summary.
        summarize: bool,
    },
}

impl InputQueueSettings {
    /// Returns the settings of a chat, where a message refers to the active turn.
    pub fn chat() -> Self {
        Self { mode: InputMode::Steer, ..Self::default() }
    }

    /// Returns the settings with the layers applied, weakest first: global, channel, session, call.
    #[must_use]
    pub fn with(self, layers: &[InputQueueOverride]) -> Self {
        layers.iter().fold(self, |settings, layer| Self {
            mode: layer.mode.unwrap_or(settings.mode),
            cap: layer.cap.unwrap_or(settings.cap),
            debounce: layer.debounce_ms.map_or(settings.debounce, Duration::from_millis),
            drop: layer.drop.unwrap_or(settings.drop),
        })
    }

    /// Fails for the first invalid value.
    pub fn validate(&self) -> Result<(), RequestError> {
        if !(1..=INPUTS_PENDING_MAX).contains(&self.cap) {
            let problem = format!("{} messages are out of range", self.cap);
            let fix = format!("use 1 to {INPUTS_PENDING_MAX}");
            return Err(RequestError::invalid("queue.cap", problem, fix));
        }
        if self.debounce > INPUT_DEBOUNCE_MAX {
            let problem = format!("{} ms are too long", self.debounce.as_millis());
            let fix = format!("use at most {}", INPUT_DEBOUNCE_MAX.as_millis());
            return Err(RequestError::invalid("queue.debounce_ms", problem, fix));
        }
        Ok(())
    }

    /// Returns the time from which a message that arrives now may become a turn. Each collected message delays all of
    /// them.
    pub fn due(&self, mode: InputMode, now: Timestamp) -> Timestamp {
        if mode == InputMode::Collect { now.after(self.debounce) } else { now }
    }

    /// Decides about one more message if `pending` messages wait: accept it, reject it, or accept it and drop the
    /// oldest ones.
    pub fn overflow(&self, pending: usize) -> OverflowDecision {
        let cap = self.cap.max(1);
        match self.drop {
            _ if pending < cap => OverflowDecision::Accept,
            OverflowPolicy::RejectNew => OverflowDecision::Reject,
            drop => OverflowDecision::DropOldest {
                count: pending.saturating_sub(cap).saturating_add(1),
                summarize: drop == OverflowPolicy::Summarize,
            },
        }
    }
}

#[cfg(test)]
mod tests;
