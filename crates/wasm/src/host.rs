//! Host functions that a manifest can grant in addition to WASI: HTTP requests, key-value storage and log messages.
//!
//! Invariants: a function that the manifest does not declare is not linked. Secrets are inserted into requests on the
//! host and never enter the module. Every requested host is reported to the egress log, including refused ones.

pub(crate) mod http;
pub(crate) mod key_value;
mod link;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use provost_core::resource::ToolResource;
use provost_net::NetClient;
use provost_sandbox::EgressRule;
use provost_sandbox::egress::EgressLog;
use provost_tool::Credentials;
use tokio::runtime::Handle;

use crate::call::store_data::HaltReason;
use crate::host::key_value::{KeyValueError, KeyValueScope, KeyValueStore};
use crate::limits;

pub(crate) use link::{NAME, is_known_import, link};

/// Groups of host functions that a module may import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HostGrants {
    pub(crate) wasi: bool,
    pub(crate) http: bool,
    pub(crate) kv: bool,
    pub(crate) log: bool,
}

impl HostGrants {
    /// All functions that a manifest can declare.
    pub(crate) const ALL: Self = Self { wasi: true, http: true, kv: true, log: true };

    /// Returns the grants of a manifest.
    pub(crate) fn of(spec: &provost_core::resource::WasmSpec) -> Self {
        Self { wasi: spec.enable_wasi, http: !spec.hosts.is_empty(), kv: spec.kv, log: spec.log }
    }
}

/// State of one call that its host functions use: the tool, its grants and its usage.
pub(crate) struct HostState {
    pub(crate) tool: Arc<ToolResource>,
    pub(crate) scope: KeyValueScope,
    pub(crate) rules: Arc<[EgressRule]>,
    pub(crate) client: NetClient,
    pub(crate) kv: Arc<dyn KeyValueStore>,
    pub(crate) egress: EgressLog,
    /// Labels of the call for the egress log.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) progress: Arc<dyn Fn(String) + Send + Sync>,
    pub(crate) credentials: Credentials,
    /// Runtime of the connections. They do not run on the threads of modules.
    pub(crate) runtime: Handle,
    pub(crate) deadline: Instant,
    pub(crate) usage: HostUsage,
}

/// Numbers of host function calls, and whether one of them may have had a side effect.
#[derive(Debug, Default)]
pub(crate) struct HostUsage {
    lines: u32,
    requests: u32,
    /// True if the call may have changed something outside of the module.
    pub(crate) has_side_effects: bool,
    /// Last HTTP response, until the module reads it.
    answer: Vec<u8>,
}

impl HostState {
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Reports a log message to the log and to the progress of the call. Messages beyond the limit are dropped, and
    /// long messages are cut.
    pub(crate) fn log(&mut self, text: &[u8]) {
        self.usage.lines += 1;
        if self.usage.lines > limits::LOG_LINES_MAX {
            return;
        }
        let start = &text[..text.len().min(limits::LOG_BYTES_MAX as usize)];
        let text = String::from_utf8_lossy(start).into_owned();
        tracing::debug!(tool.name = %self.tool.name, "log message of a module: {text}");
        (self.progress)(text);
    }

    /// Returns a value of the tool. `None` if the key does not exist.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError> {
        self.kv.get(&self.scope, check_key(key)?).await
    }

    /// Stores a value of the tool, and marks the call as having side effects. Returns an error if the key or the value
    /// is too long.
    pub(crate) async fn set(&mut self, key: &str, value: Vec<u8>) -> Result<(), KeyValueError> {
        if value.len() > limits::VALUE_BYTES_MAX as usize {
            return Err(KeyValueError::TooLarge);
        }
        self.usage.has_side_effects = true;
        self.kv.set(&self.scope, check_key(key)?, value).await
    }

    /// Deletes a value of the tool, and marks the call as having side effects.
    pub(crate) async fn delete(&mut self, key: &str) -> Result<(), KeyValueError> {
        self.usage.has_side_effects = true;
        self.kv.delete(&self.scope, check_key(key)?).await
    }

    /// Counts an HTTP request. Returns an error that stops the module beyond the limit.
    fn count_request(&mut self) -> Result<(), HaltReason> {
        self.usage.requests += 1;
        match self.usage.requests > limits::REQUESTS_MAX {
            true => Err(HaltReason::Misuse("the call exceeded its number of HTTP requests")),
            false => Ok(()),
        }
    }
}

/// Returns the key unchanged. Returns an error if it is empty or too long.
fn check_key(key: &str) -> Result<&str, KeyValueError> {
    match key.is_empty() || key.len() > limits::KEY_BYTES_MAX as usize {
        true => Err(KeyValueError::Key),
        false => Ok(key),
    }
}
