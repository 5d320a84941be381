//! What becomes of a message that reaches a session in which something is going on.

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
    /// How a message wants to be treated while a run is at work.
    #[derive(Default)]
    InputMode as "QueueMode", "a queue mode" {
        /// A new task behind the running one.
        Queue = "queue",
        /// The same task goes on with it afterwards. The default for programs.
        #[default]
        Followup = "followup",
        /// Together with what else comes, one turn afterwards.
        Collect = "collect",
        /// Into the running turn at its next boundary. The default for chats.
        Steer = "steer" or "steer-backlog",
        /// Instead of what is being done.
        Interrupt = "interrupt",
        /// Not at all while something is being done.
        Reject = "reject",
        /// Instead of what is being done, and as if that had never been.
        Rollback = "rollback",
    }
}

string_enum! {
    /// What gives way when too many messages wait.
    #[derive(Default)]
    OverflowPolicy as "DropPolicy", "a drop policy" {
        /// The oldest.
        DropOldest = "old",
        /// The new one is refused.
        RejectNew = "new",
        /// The oldest, and a summary of what was dropped takes their place.
        #[default]
        Summarize = "summarize",
    }
}

string_enum! {
    /// What a message finds.
    InputTargetState, "a situation" {
        /// The run waits for exactly this.
        WaitingForInput = "waiting_for_input",
        /// The run is at work and takes messages at its boundaries.
        CanSteer = "working_can_steer",
        /// The run is at work, or queued, and takes nothing now.
        CannotSteer = "working_cannot_steer",
        /// There is no run any more.
        Closed = "closed",
    }
}

string_enum! {
    /// What is done with a message.
    InputAction, "an input action" {
        /// The waiting run gets it at once.
        Deliver = "deliver",
        /// A new task behind the running one.
        QueueNewTask = "queue_new_task",
        /// The next turn of the same task.
        QueueSameTask = "queue_same_task",
        /// It was to steer and cannot: the next turn of the same task, and an event says so.
        QueueAsFallback = "queue_as_fallback",
        /// The next turn of the same task, together with what else comes.
        Collect = "collect",
        /// Into the running turn.
        Steer = "steer",
        /// The attempt is cancelled; a new one starts with this once the old one has settled.
        Interrupt = "interrupt",
        /// As an interrupt, and the steps of this turn leave the conversation.
        Rollback = "rollback",
        /// It is refused: busy.
        Reject = "reject",
        /// A new run of the same task starts with it.
        Restart = "restart",
    }
}

impl InputAction {
    /// What the caller is told.
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
    /// What a message finds at a run. `takes_steering` is whether its agent reads messages in the middle of a turn.
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
    /// What is done with a message of this mode. The message itself is stored first in every case.
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

/// How the waiting messages of a session are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputQueueSettings {
    /// The mode of a message that does not say one.
    pub mode: InputMode,
    /// Messages that may wait.
    pub cap: usize,
    /// The quiet time after which collected messages become one turn.
    #[serde(rename = "debounce_ms", with = "millis")]
    #[schemars(with = "u64")]
    pub debounce: Duration,
    /// What gives way when too many wait.
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

/// What one layer says about waiting messages; the rest it leaves as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "QueueOverride")]
pub struct InputQueueOverride {
    /// Another mode.
    pub mode: Option<InputMode>,
    /// Another cap.
    pub cap: Option<usize>,
    /// Another quiet time, in milliseconds.
    pub debounce_ms: Option<u64>,
    /// Another drop policy.
    pub drop: Option<OverflowPolicy>,
}

/// What happens to the waiting messages when one more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverflowDecision {
    /// It fits.
    Accept,
    /// The new one is refused.
    Reject,
    /// It comes in and some of the oldest go.
    DropOldest {
        /// How many.
        count: usize,
        /// True if a summary of them takes their place.
        summarize: bool,
    },
}

impl InputQueueSettings {
    /// The settings of a chat: what a person adds is meant for what is being done.
    pub fn chat() -> Self {
        Self { mode: InputMode::Steer, ..Self::default() }
    }

    /// These settings with what stronger layers say, weakest first: global, channel, session, call.
    #[must_use]
    pub fn with(self, layers: &[InputQueueOverride]) -> Self {
        layers.iter().fold(self, |settings, layer| Self {
            mode: layer.mode.unwrap_or(settings.mode),
            cap: layer.cap.unwrap_or(settings.cap),
            debounce: layer.debounce_ms.map_or(settings.debounce, Duration::from_millis),
            drop: layer.drop.unwrap_or(settings.drop),
        })
    }

    /// Checks every bound.
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

    /// When a message that comes now may become a turn. Each further collected message moves the time of all of them.
    pub fn due(&self, mode: InputMode, now: Timestamp) -> Timestamp {
        if mode == InputMode::Collect { now.after(self.debounce) } else { now }
    }

    /// What happens when one more message comes to `pending` waiting ones.
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
