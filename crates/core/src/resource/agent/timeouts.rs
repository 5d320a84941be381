//! Timeouts of a run that its agent sets. The deadline of a run is a timer in the database instead.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Timeouts of the runs of an agent. Zero means no limit; an absent field means the default of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentTimeouts {
    /// Longest time in the queue before the first attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<u64>,
    /// Longest duration of one attempt, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_ms: Option<u64>,
    /// Idle timeout in milliseconds: longest time without an event while no tool runs. Tools have timeouts of their
    /// own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
}

impl AgentTimeouts {
    /// Longest time in the queue before the first attempt.
    pub fn queue(self) -> Option<Duration> {
        limit(self.queue_ms, None)
    }

    /// Longest duration of one attempt.
    pub fn attempt(self, default: Option<Duration>) -> Option<Duration> {
        limit(self.attempt_ms, default)
    }

    /// Longest time without an event.
    pub fn idle(self, default: Option<Duration>) -> Option<Duration> {
        limit(self.silence_ms, default)
    }
}

fn limit(configured: Option<u64>, default: Option<Duration>) -> Option<Duration> {
    match configured {
        None => default,
        Some(0) => None,
        Some(millis) => Some(Duration::from_millis(millis)),
    }
}
