//! Execution classes: similar runs share a concurrency limit and a circuit breaker.
//!
//! Invariant: a limit of zero pauses the class, and only failures to execute a run count for the breaker.

use std::fmt;
use std::str::FromStr;

/// Default concurrency limit of a class.
pub const CLASS_CONCURRENCY_DEFAULT: u64 = 8;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Timestamp;
use crate::execution_policy::ExecutionPolicy;
use crate::hash::{canonical_json, sha256_hex};
use crate::id::name::Namespace;
use crate::lifecycle::RequestError;
use crate::lifecycle::error::quoted;
use crate::recovery::{BreakerSignal, OutcomeCode};
use crate::text::string_enum::string_enum;
use crate::usage::limits::{
    CLASS_FAILURE_WINDOW, CLASS_FAILURES_MAX, CLASS_FAILURES_WARN, CLASS_PROBE_AFTER,
};

const KEY_PREFIX: &str = "execclass_";
const KEY_DIGITS: usize = 32;

/// Key of a class.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExecutionClassKey(String);

impl ExecutionClassKey {
    /// Returns the class of a run: its namespace, agent, lane and policy. The retry policy does not count.
    pub fn new(
        namespace: &Namespace,
        agent: Option<&str>,
        lane: Option<&str>,
        policy: &ExecutionPolicy,
    ) -> Self {
        let resources = policy.resources.resolved();
        let text = canonical_json(&json!({
            "namespace": namespace.as_str(), "agent": agent, "lane": lane,
            "host": policy.host, "security": policy.security, "ask": policy.ask,
            "runtime_type": policy.runtime_type, "workspace_access": policy.workspace_access,
            "network_enabled": policy.network_enabled, "interactive": policy.interactive,
            "resources": {"cpu": resources.cpu, "memory": resources.memory, "gpu": resources.gpu},
        }));
        Self(format!("{KEY_PREFIX}{}", &sha256_hex(text.as_bytes())[..KEY_DIGITS]))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ExecutionClassKey {
    type Err = RequestError;
    fn from_str(text: &str) -> Result<Self, RequestError> {
        let digits = text.strip_prefix(KEY_PREFIX).unwrap_or("");
        let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if digits.len() == KEY_DIGITS && digits.bytes().all(lower_hex) {
            return Ok(Self(text.to_owned()));
        }
        let problem = format!("`{}` is not a class", quoted(text));
        Err(RequestError::invalid("class_key", problem, "use a key from the list of classes"))
    }
}

impl TryFrom<String> for ExecutionClassKey {
    type Error = RequestError;
    fn try_from(text: String) -> Result<Self, RequestError> {
        text.parse()
    }
}

impl From<ExecutionClassKey> for String {
    fn from(key: ExecutionClassKey) -> String {
        key.0
    }
}

impl fmt::Display for ExecutionClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ExecutionClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

string_enum! {
    /// Health of a class.
    #[derive(Default)]
    ClassHealth as "Health", "a health" {
        /// No recent failures.
        #[default]
        Healthy = "healthy",
        /// Some recent attempts could not be executed.
        Warning = "warning",
        /// The breaker is open: only occasional probes start.
        Degraded = "degraded",
    }
}

/// The circuit breaker of a class, as a value that two columns of its row store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassBreaker {
    failures: Vec<Timestamp>,
    probe_at: Option<Timestamp>,
}

/// Decision about starting another attempt of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Start the attempt.
    Admit,
    /// Start the attempt as the only probe. The claim stores this breaker, which rejects a second probe.
    Probe(ClassBreaker),
    /// Wait: the class is paused.
    Paused,
    /// Wait: the class has reached its concurrency limit.
    Full,
    /// Wait: the breaker is open.
    Open {
        /// Time of the next probe.
        until: Timestamp,
    },
}

impl ClassBreaker {
    /// Creates the breaker from its row.
    pub fn from_row(failures: Vec<Timestamp>, probe_at: Option<Timestamp>) -> Self {
        Self { failures, probe_at }
    }

    /// Returns the times of the counted failures, oldest first. Their number is bounded.
    pub fn failures(&self) -> &[Timestamp] {
        &self.failures
    }

    /// Returns the time of the next probe while the breaker is open. `None` if it is closed.
    pub fn probe_at(&self) -> Option<Timestamp> {
        self.probe_at
    }

    /// Returns the current health. Failures expire; an open breaker stays open until a probe succeeds.
    pub fn health(&self, now: Timestamp) -> ClassHealth {
        if self.probe_at.is_some() {
            return ClassHealth::Degraded;
        }
        let recent = self.failures.iter().filter(|at| is_recent(**at, now)).count();
        if recent >= CLASS_FAILURES_WARN { ClassHealth::Warning } else { ClassHealth::Healthy }
    }

    /// Decides whether another attempt may start, with `running` active attempts and a limit of `desired`.
    pub fn admit(&self, desired: u32, running: u32, now: Timestamp) -> Admission {
        if desired == 0 {
            return Admission::Paused;
        }
        match self.probe_at {
            Some(until) if now < until => Admission::Open { until },
            _ if running >= desired => Admission::Full,
            Some(_) => Admission::Probe(Self {
                probe_at: Some(now.after(CLASS_PROBE_AFTER)),
                ..self.clone()
            }),
            None => Admission::Admit,
        }
    }

    /// Returns the breaker after the end of an attempt that started at `started`. `None` means success.
    #[must_use]
    pub fn after_attempt(
        mut self,
        started: Timestamp,
        code: Option<OutcomeCode>,
        now: Timestamp,
    ) -> Self {
        match code.map_or(BreakerSignal::Success, OutcomeCode::breaker_signal) {
            BreakerSignal::Ignored => self,
            BreakerSignal::Success if self.is_probe(started) => Self::default(),
            BreakerSignal::Success => self,
            BreakerSignal::Failure => {
                self.failures.retain(|at| is_recent(*at, now));
                self.failures.push(now);
                let excess = self.failures.len().saturating_sub(CLASS_FAILURES_MAX);
                self.failures.drain(..excess);
                if self.probe_at.is_some() || self.failures.len() >= CLASS_FAILURES_MAX {
                    self.probe_at = Some(now.after(CLASS_PROBE_AFTER));
                }
                self
            }
        }
    }

    /// Returns true if an attempt that started at `started` is the probe of the open breaker. Only an attempt that
    /// started after the breaker opened proves that the class works again.
    fn is_probe(&self, started: Timestamp) -> bool {
        self.probe_at.is_some_and(|probe_at| started.after(CLASS_PROBE_AFTER) >= probe_at)
    }
}

/// Returns true if a failure still counts.
fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now < at.after(CLASS_FAILURE_WINDOW)
}

#[cfg(test)]
mod tests;
