//! Execution classes: groups of runs that share a concurrency limit.

use provost_core::scheduling::ClassHealth;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DateTime;

/// A group of runs that share a concurrency limit and a circuit breaker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionClass {
    /// Key of the class.
    pub key: String,
    /// Agent of the class. Absent if the class is not limited to one agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Lane of the class. Absent if the class is not limited to one lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Worker pool that executes the runs of the class.
    pub pool: String,
    /// Maximum number of concurrent runs. Zero pauses the class.
    #[serde(rename = "desired")]
    pub concurrency_limit: u64,
    /// Number of runs that workers execute now.
    pub running: u64,
    /// State of the circuit breaker.
    pub health: ClassHealth,
    /// Time at which an open circuit breaker permits one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_at: Option<DateTime>,
    /// Time of the last change.
    pub updated: DateTime,
}

/// Concurrency limit of an execution class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyLimit {
    /// Maximum number of concurrent runs. Zero pauses the class.
    #[serde(rename = "desired")]
    pub limit: u64,
}
