//! The clocks of a run. Its deadline is a timer in the database; these are the others, and an agent's profile sets them.

use std::time::Duration;

use provost_core::lifecycle::WorkError;
use serde::{Deserialize, Serialize};

use crate::agent::AgentConfig;
use crate::error::EngineError;
use crate::options::EngineOptions;

/// Where an agent's profile says how long things may take.
const KEY: &str = "clocks";

/// How long the parts of a run may take, as an agent's profile says under `clocks`. Zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clocks {
    /// Milliseconds a run may wait for its first worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<u64>,
    /// Milliseconds one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt_ms: Option<u64>,
    /// Milliseconds an attempt may be without any sign of life while no tool runs. Tools have their own times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ms: Option<u64>,
}

impl Clocks {
    /// What an agent's profile says.
    pub fn of(config: &AgentConfig) -> Result<Self, EngineError> {
        let Some(value) = config.more.get(KEY) else { return Ok(Self::default()) };
        serde_json::from_value(value.clone()).map_err(|error| {
            let fix = "use `queue_ms`, `attempt_ms` and `silence_ms` with whole numbers";
            WorkError::invalid(KEY, error.to_string(), fix).into()
        })
    }

    /// How long a run may wait for its first worker.
    pub(crate) fn queue(self) -> Option<Duration> {
        limit(self.queue_ms, None)
    }

    /// How long one attempt may take.
    pub(crate) fn attempt(self, options: &EngineOptions) -> Option<Duration> {
        limit(self.attempt_ms, options.attempt_timeout)
    }

    /// How long an attempt may be silent.
    pub(crate) fn silence(self, options: &EngineOptions) -> Option<Duration> {
        limit(self.silence_ms, options.silence)
    }
}

fn limit(said: Option<u64>, default: Option<Duration>) -> Option<Duration> {
    match said {
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
    fn a_profile_sets_clocks_and_zero_is_no_limit() {
        let options = EngineOptions {
            attempt_timeout: Some(Duration::from_secs(9)),
            ..EngineOptions::default()
        };
        let clocks = Clocks::of(&config(json!({"clocks": {"queue_ms": 5}}))).unwrap();
        assert_eq!(clocks.queue(), Some(Duration::from_millis(5)));
        assert_eq!(clocks.attempt(&options), Some(Duration::from_secs(9)));
        let clocks = Clocks::of(&config(json!({"clocks": {"attempt_ms": 0}}))).unwrap();
        assert_eq!(clocks.attempt(&options), None);
        assert_eq!(Clocks::of(&config(json!({}))).unwrap(), Clocks::default());
    }

    #[test]
    fn what_is_no_clock_is_refused_by_name() {
        let refused = Clocks::of(&config(json!({"clocks": {"queue": 5}}))).unwrap_err();
        assert_eq!(refused.code(), "invalid");
        assert!(refused.to_string().contains("clocks"), "{refused}");
    }
}
