//! What a manifest can give a module beside WASI: asking hosts over HTTP, keeping values, saying how far it is.
//!
//! Invariants: what is not declared is not even linked; a secret is put into a request here and never enters the module; every
//! host that is asked for is told to whoever keeps records, also one that is refused.

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

use crate::call::store_data::Halt;
use crate::host::key_value::{KeyValues, KvError, KvScope};
use crate::limits;

pub(crate) use link::{NAME, knows, link};

/// What a module may use. What is not given is refused before it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grants {
    pub(crate) wasi: bool,
    pub(crate) http: bool,
    pub(crate) kv: bool,
    pub(crate) log: bool,
}

impl Grants {
    /// Everything that a manifest can declare.
    pub(crate) const ALL: Self = Self { wasi: true, http: true, kv: true, log: true };

    pub(crate) fn of(spec: &provost_core::resource::WasmSpec) -> Self {
        Self { wasi: spec.enable_wasi, http: !spec.hosts.is_empty(), kv: spec.kv, log: spec.log }
    }
}

/// The outside of one call.
pub(crate) struct Host {
    pub(crate) tool: Arc<ToolResource>,
    pub(crate) scope: KvScope,
    pub(crate) rules: Arc<[EgressRule]>,
    pub(crate) client: NetClient,
    pub(crate) kv: Arc<dyn KeyValues>,
    pub(crate) egress: EgressLog,
    /// Whose call it is, for the records of what is reached.
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) progress: Arc<dyn Fn(String) + Send + Sync>,
    pub(crate) credentials: Credentials,
    /// Where connections live: not on the threads of modules.
    pub(crate) home: Handle,
    pub(crate) deadline: Instant,
    pub(crate) used: Used,
}

/// What a call has used of it.
#[derive(Debug, Default)]
pub(crate) struct Used {
    lines: u32,
    requests: u32,
    /// True if something outside may have been changed.
    pub(crate) has_acted: bool,
    /// The last answer, until it is read.
    answer: Vec<u8>,
}

impl Host {
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Says how far the module is. What is too much is left out.
    pub(crate) fn log(&mut self, text: &[u8]) {
        self.used.lines += 1;
        if self.used.lines > limits::LOG_LINES_MAX {
            return;
        }
        let cut = &text[..text.len().min(limits::LOG_BYTES_MAX as usize)];
        let text = String::from_utf8_lossy(cut).into_owned();
        tracing::debug!(tool.name = %self.tool.name, "a module says: {text}");
        (self.progress)(text);
    }

    /// A value of the tool.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, KvError> {
        self.kv.get(&self.scope, checked(key)?).await
    }

    /// Keeps a value of the tool.
    pub(crate) async fn set(&mut self, key: &str, value: Vec<u8>) -> Result<(), KvError> {
        if value.len() > limits::VALUE_BYTES_MAX as usize {
            return Err(KvError::TooLarge);
        }
        self.used.has_acted = true;
        self.kv.set(&self.scope, checked(key)?, value).await
    }

    /// Forgets a value of the tool.
    pub(crate) async fn delete(&mut self, key: &str) -> Result<(), KvError> {
        self.used.has_acted = true;
        self.kv.delete(&self.scope, checked(key)?).await
    }

    /// Counts a request.
    fn count_request(&mut self) -> Result<(), Halt> {
        self.used.requests += 1;
        match self.used.requests > limits::REQUESTS_MAX {
            true => Err(Halt::Misuse("it made more requests than one call may")),
            false => Ok(()),
        }
    }
}

fn checked(key: &str) -> Result<&str, KvError> {
    match key.is_empty() || key.len() > limits::KEY_BYTES_MAX as usize {
        true => Err(KvError::Key),
        false => Ok(key),
    }
}
