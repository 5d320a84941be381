//! Scheduling classes: runs that look the same to the scheduler share a budget of concurrency and a breaker.
//!
//! Invariant: a budget of zero means paused, and only a failure to run anything counts for the breaker.

use std::fmt;
use std::str::FromStr;

/// How many runs of a class work at once unless somebody says otherwise.
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

/// Names a class.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ExecutionClassKey(String);

impl ExecutionClassKey {
    /// The class of a run: its namespace, agent, lane and policy. How it is tried again does not count.
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

    /// The key as text.
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
    /// How a class does.
    #[derive(Default)]
    ClassHealth as "Health", "a health" {
        /// Well.
        #[default]
        Healthy = "healthy",
        /// Some attempts could not be run of late.
        Warning = "warning",
        /// Too many could not: nothing starts but a probe now and then.
        Degraded = "degraded",
    }
}

/// The breaker of a class, as a value: what two columns of its row hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassBreaker {
    failures: Vec<Timestamp>,
    probe_at: Option<Timestamp>,
}

/// May one more attempt of a class start?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Admit,
    /// Yes, as the one probe; the breaker to store with the claim lets no second one through.
    Probe(ClassBreaker),
    /// No: the class is paused.
    Paused,
    /// No: as many as it may run are running.
    Full,
    /// No: the breaker is open until then.
    Open {
        /// When the next probe may start.
        until: Timestamp,
    },
}

impl ClassBreaker {
    /// The breaker that a row holds.
    pub fn from_row(failures: Vec<Timestamp>, probe_at: Option<Timestamp>) -> Self {
        Self { failures, probe_at }
    }

    /// When attempts could not be run, oldest first; never more than count.
    pub fn failures(&self) -> &[Timestamp] {
        &self.failures
    }

    /// When the next probe may start, while the breaker is open.
    pub fn probe_at(&self) -> Option<Timestamp> {
        self.probe_at
    }

    /// How the class does now. Failures pass out of mind; an open breaker stays open until a probe ran.
    pub fn health(&self, now: Timestamp) -> ClassHealth {
        if self.probe_at.is_some() {
            return ClassHealth::Degraded;
        }
        let recent = self.failures.iter().filter(|at| is_recent(**at, now)).count();
        if recent >= CLASS_FAILURES_WARN { ClassHealth::Warning } else { ClassHealth::Healthy }
    }

    /// May one more attempt start, with `running` at work of `desired`?
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

    /// The breaker after an attempt that started at `started` ended, with `None` if it ended well.
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

    /// Only what started after the breaker opened says that the class runs again.
    fn is_probe(&self, started: Timestamp) -> bool {
        self.probe_at.is_some_and(|probe_at| started.after(CLASS_PROBE_AFTER) >= probe_at)
    }
}

fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now < at.after(CLASS_FAILURE_WINDOW)
}

#[cfg(test)]
mod tests;
