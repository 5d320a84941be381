//! Timeouts of a run that the configuration of its agent sets. The deadline of a run is a timer in the database
//! instead.

use std::time::Duration;

use provost_core::lifecycle::RequestError;
use serde::{Deserialize, Serialize};

use crate::agent::AgentConfig;
use crate::error::EngineError;
use crate::options::EngineOptions;

/// Key of the timeouts in the configuration of an agent.
const KEY: &str = "clocks";

/// Timeouts of runs, from the key `clocks` of an agent's configuration. Zero means no limit. `None` means the default
/// of the engine; the queue has no default limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// Parses the timeouts in the configuration of an agent. Fails for an unknown key.
    pub fn of(config: &AgentConfig) -> Result<Self, EngineError> {
        let Some(value) = config.more.get(KEY) else { return Ok(Self::default()) };
        serde_json::from_value(value.clone()).map_err(|error| {
            let fix = "use `queue_ms`, `attempt_ms` and `silence_ms` with whole numbers";
            RequestError::invalid(KEY, error.to_string(), fix).into()
        })
    }

    /// Returns the longest time in the queue before the first attempt. `None` means no limit.
    pub(crate) fn queue(self) -> Option<Duration> {
        limit(self.queue_ms, None)
    }

    /// Returns the longest duration of one attempt. `None` means no limit.
    pub(crate) fn attempt(self, options: &EngineOptions) -> Option<Duration> {
        limit(self.attempt_ms, options.attempt_timeout)
    }

    /// Returns the longest time without an event while no tool runs. `None` means no limit.
    pub(crate) fn idle(self, options: &EngineOptions) -> Option<Duration> {
        limit(self.silence_ms, options.idle_timeout)
    }
}

/// Returns the configured limit, or the default without one. Zero means no limit.
fn limit(configured: Option<u64>, default: Option<Duration>) -> Option<Duration> {
    match configured {
        None => default,
        Some(0) => None,
        Some(millis) => Some(Duration::from_millis(millis)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(value: serde_json::Value) -> AgentConfig {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn configured_timeouts_apply_and_zero_is_no_limit() {
        let options = EngineOptions {
            attempt_timeout: Some(Duration::from_secs(9)),
            ..EngineOptions::default()
        };
        let timeouts = AgentTimeouts::of(&config(json!({"clocks": {"queue_ms": 5}}))).unwrap();
        assert_eq!(timeouts.queue(), Some(Duration::from_millis(5)));
        assert_eq!(timeouts.attempt(&options), Some(Duration::from_secs(9)));
        let timeouts = AgentTimeouts::of(&config(json!({"clocks": {"attempt_ms": 0}}))).unwrap();
        assert_eq!(timeouts.attempt(&options), None);
        assert_eq!(AgentTimeouts::of(&config(json!({}))).unwrap(), AgentTimeouts::default());
    }

    #[test]
    fn what_is_no_clock_is_refused_by_name() {
        let refused = AgentTimeouts::of(&config(json!({"clocks": {"queue": 5}}))).unwrap_err();
        assert_eq!(refused.code(), "invalid");
        assert!(refused.to_string().contains("clocks"), "{refused}");
    }
}
