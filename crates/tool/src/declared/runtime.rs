//! The seam to tools that live elsewhere: a runtime speaks one wire, and only the guarded path calls it.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolRequest};
use provost_core::resource::{IsolationMode, ToolAuth, ToolResource, ToolType};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use provost_redact::Redact;

use crate::{Conversation, ToolOutput};

/// Speaks one wire to tools of one type.
///
/// A runtime makes exactly one attempt: deadlines, retries, credentials, redaction and bounds are the guarded path's work.
pub trait ToolRuntime: Send + Sync + 'static {
    /// The tools it can reach.
    fn kind(&self) -> ToolType;

    /// The isolation that it gives. A tool that demands another one never comes here.
    fn isolation(&self) -> IsolationMode {
        IsolationMode::None
    }

    /// Refuses a definition that it could never run, before anybody calls it.
    fn check(&self, _tool: &ToolResource) -> Result<(), ToolContractError> {
        Ok(())
    }

    /// Makes one attempt. Dropping the future stops it and leaves nothing behind.
    fn invoke(&self, attempt: Attempt)
    -> BoxFuture<'static, Result<ToolOutput, ToolContractError>>;
}

/// One attempt at one call.
pub struct Attempt {
    /// The tool as it was declared.
    pub tool: Arc<ToolResource>,
    /// The arguments; they fit the tool's schema.
    pub arguments: Arc<Value>,
    /// The call as an envelope, in its normal form: request id, task, namespace, agent, trace, number of the attempt.
    pub request: Arc<ToolRequest>,
    /// What is the same whenever this very call is made again, for services that know repeats by a key.
    pub effect_key: String,
    /// The conversation that the call belongs to, where there is one.
    pub conversation: Option<Conversation>,
    /// What proves who calls.
    pub credentials: Credentials,
    /// When the attempt must be over.
    pub deadline: Instant,
    /// Set when the run is stopped.
    pub cancel: CancellationToken,
    /// Tells whoever watches how far it is.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
    /// Takes secrets out of texts. A runtime that cuts what it is told uses it first: half a secret is found by nobody.
    pub redact: Option<Arc<dyn Redact>>,
}

impl Attempt {
    /// Whose call it is, for records of what the tool does meanwhile; empty where nothing is known.
    pub fn labels(&self) -> [(&'static str, &str); 5] {
        let ToolRequest { namespace, agent, task_id, request_id, .. } = self.request.as_ref();
        [
            ("namespace", namespace.as_str()),
            ("agent", agent),
            ("task", task_id),
            ("call", request_id),
            ("effect_key", &self.effect_key),
        ]
    }
}

/// What proves who calls: headers (metadata in gRPC) with secret values.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Name in lower case, and value.
    pub headers: Vec<(String, Secret<String>)>,
}

/// Finds the credentials that a tool's definition names.
pub trait Authenticator: Send + Sync + 'static {
    /// Resolves them in a namespace. Each value that is found is known to redaction before it is handed out.
    fn credentials<'a>(
        &'a self,
        namespace: &'a str,
        auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>>;

    /// Forgets what was cached for it: the other side said that it is no longer valid.
    /// True if there was something, so that a second try can help.
    fn evict<'a>(&'a self, namespace: &'a str, auth: &'a ToolAuth) -> BoxFuture<'a, bool>;
}
