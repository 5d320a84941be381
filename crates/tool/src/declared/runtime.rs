//! The interface of tool runtimes. Each runtime implements one transport, and only declared tools call it.

use std::sync::Arc;
use std::time::Instant;

use futures::future::BoxFuture;
use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolRequest};
use provost_core::resource::{IsolationMode, ToolAuth, ToolResource, ToolType};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use provost_redact::Redact;

use crate::{ConversationRef, ToolOutput};

/// A transport to tools of one type.
///
/// A runtime makes exactly one attempt. [`DeclaredTool`](crate::DeclaredTool) and the guard handle deadlines, retries,
/// credentials, redaction and size limits.
pub trait ToolRuntime: Send + Sync + 'static {
    /// Returns the type of tools that the runtime executes.
    fn kind(&self) -> ToolType;

    /// Returns the isolation that the runtime provides. It only receives tools that require this isolation.
    fn isolation(&self) -> IsolationMode {
        IsolationMode::None
    }

    /// Returns an error if the runtime cannot execute a definition. Does not call the tool.
    fn check(&self, _tool: &ToolResource) -> Result<(), ToolContractError> {
        Ok(())
    }

    /// Makes one attempt. Dropping the future stops the attempt.
    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>>;
}

/// One attempt of a call, as a runtime receives it.
pub struct ToolInvocation {
    /// Definition of the tool.
    pub tool: Arc<ToolResource>,
    /// Validated arguments. They match the schema of the tool.
    pub arguments: Arc<Value>,
    /// Normalized request envelope: request id, task, namespace, agent, trace and number of the attempt.
    pub request: Arc<ToolRequest>,
    /// Idempotency key of the call. Repeating the same call uses the same key.
    pub effect_key: String,
    /// Conversation of the call. `None` if it belongs to none.
    pub conversation: Option<ConversationRef>,
    /// Credentials of the call.
    pub credentials: Credentials,
    /// Deadline of the attempt.
    pub deadline: Instant,
    /// Cancelled when the run stops.
    pub cancel: CancellationToken,
    /// Reports progress.
    pub progress: Arc<dyn Fn(String) + Send + Sync>,
    /// Removes secrets from texts. A runtime must use it before it truncates a text, because a truncated secret is not
    /// recognized.
    pub redact: Option<Arc<dyn Redact>>,
}

impl ToolInvocation {
    /// Returns labels that identify the call in records. Unknown labels are empty.
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

/// Credentials of a call: headers, or metadata in gRPC, with secret values.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// Names in lower case, with their values.
    pub headers: Vec<(String, Secret<String>)>,
}

/// Provides the credentials that a tool definition names.
pub trait CredentialProvider: Send + Sync + 'static {
    /// Resolves credentials in a namespace. Every value is registered for redaction before it is returned.
    fn credentials<'a>(
        &'a self,
        namespace: &'a str,
        auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>>;

    /// Removes cached credentials that the server rejected. Returns true if there were any, so that another attempt can
    /// succeed.
    fn invalidate<'a>(&'a self, namespace: &'a str, auth: &'a ToolAuth) -> BoxFuture<'a, bool>;
}
