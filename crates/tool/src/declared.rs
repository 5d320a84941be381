//! Declared tools: tools that a manifest defines and a tool runtime executes.
//!
//! A declared tool selects the runtime by type and isolation, resolves credentials, and makes attempts with one
//! deadline each. A call ends at the deadline even if the runtime ignores it. The guard applies rules, records,
//! redaction and size limits.

mod backoff;
mod envelope;
mod invoke;
pub(crate) mod registry;
/// Selects the runtime of the tool. The first call also checks the definition with the runtime.
pub(crate) mod runtime;

use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::Env;
use provost_core::contract::{
    CONTRACT_VERSION, OPERATION_INVOKE, RequestAuth, RequestRuntime, RequestTool,
    ToolContractError, ToolErrorCode, ToolRequest, TraceIds,
};
use provost_core::resource::{
    IsolationMode, ResourceError, ToolAuth, ToolResource, ToolRetryJitter,
};

pub use crate::declared::envelope::EnvelopeExecutor;

use crate::declared::invoke::DeclaredToolCall;
use crate::{
    CredentialProvider, Credentials, Permit, PolicyAttributes, RuntimeRegistry, Tool, ToolContext,
    ToolError, ToolFuture, ToolRuntime, ToolSpec, ToolSpecError, trace,
};

/// Error detail `outcome`. Its value `unknown` means that the call may have been executed despite the error.
pub const OUTCOME_DETAIL: &str = "outcome";
/// Value of [`OUTCOME_DETAIL`] for a call that may have been executed.
pub const OUTCOME_UNKNOWN: &str = "unknown";
/// Error detail with the time that the server asks to wait before the next attempt, in milliseconds.
pub const RETRY_AFTER_DETAIL: &str = "retry_after_ms";
/// Error detail with the number of attempts.
pub const ATTEMPTS_DETAIL: &str = "attempts";

/// Time of a call in addition to its attempts. It makes sure that the timeout of the guard never comes first.
const OVERHEAD: Duration = Duration::from_secs(1);

/// Error in the definition of a declared tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredToolError {
    /// The definition is invalid.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The tool cannot be described to a model.
    #[error(transparent)]
    Spec(#[from] ToolSpecError),
}

/// Runtimes, credentials and clock that declared tools need.
#[derive(Clone)]
pub struct RuntimeServices {
    /// Runtimes that execute tools.
    pub runtimes: Arc<RuntimeRegistry>,
    /// Provider of credentials.
    pub credentials: Arc<dyn CredentialProvider>,
    /// Clock and random source.
    pub env: Env,
}

/// A credential provider without credentials. Tools that need credentials fail.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl CredentialProvider for NoCredentials {
    fn credentials<'a>(
        &'a self,
        _namespace: &'a str,
        auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        let message =
            format!("no credential provider is configured for secret `{}`", auth.secret_ref);
        let fault = ToolContractError::new(ToolErrorCode::SecretResolutionFailed, message);
        std::future::ready(Err(fault)).boxed()
    }

    fn invalidate<'a>(&'a self, _namespace: &'a str, _auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }
}

/// A tool that a manifest defines.
pub struct DeclaredTool {
    spec: ToolSpec,
    resource: Arc<ToolResource>,
    namespace: Arc<str>,
    services: RuntimeServices,
    /// Template of every request to the tool.
    request_template: ToolRequest,
    /// Result of checking the definition with the runtime. It is checked once.
    checked: OnceLock<Result<(), ToolContractError>>,
}

impl DeclaredTool {
    /// Creates the tool of a definition in its namespace. Returns an error if the definition is invalid. The runtime is
    /// selected by [`verify`](Self::verify) or the first call.
    pub fn new(
        resource: ToolResource,
        namespace: impl Into<Arc<str>>,
        services: RuntimeServices,
    ) -> Result<Self, DeclaredToolError> {
        let resource = resource.normalized()?;
        let attributes = PolicyAttributes {
            kind: Some(resource.kind),
            capabilities: resource.capabilities.clone(),
            operations: resource.operations(),
            risk: resource.risk_level,
            is_isolated: resource.isolation() != IsolationMode::None,
        };
        let schema = resource.input_schema.clone();
        let spec = ToolSpec::new(&resource.name, &resource.description, schema)?
            .effect(resource.effect)
            .timeout(total_timeout(&resource))
            .policy_attributes(attributes);
        let namespace: Arc<str> = namespace.into();
        let request_template = request_template(&resource, &namespace);
        let (resource, checked) = (Arc::new(resource), OnceLock::new());
        Ok(Self { spec, resource, namespace, services, request_template, checked })
    }

    /// Returns the definition.
    pub fn resource(&self) -> &ToolResource {
        &self.resource
    }

    /// Returns an error if no runtime can execute this tool. Does not call the tool.
    pub fn verify(&self) -> Result<(), ToolContractError> {
        self.runtime().map(drop)
    }

    fn runtime(&self) -> Result<&Arc<dyn ToolRuntime>, ToolContractError> {
        let runtime = self.services.runtimes.select(&self.resource)?;
        self.checked.get_or_init(|| runtime.check(&self.resource)).clone()?;
        Ok(runtime)
    }

    /// Creates the call with its request. Returns an error if the run belongs to another namespace or no runtime can
    /// execute the tool.
    fn prepare(
        &self,
        permit: Permit,
        cx: ToolContext,
    ) -> Result<DeclaredToolCall, ToolContractError> {
        let origin = permit.origin().cloned().unwrap_or_default();
        if permit.origin().is_some() && *origin.namespace != *self.namespace {
            let message = format!(
                "tool `{}` belongs to namespace `{}`, but the run belongs to `{}`",
                self.resource.name, self.namespace, origin.namespace
            );
            return Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message));
        }
        let runtime = Arc::clone(self.runtime()?);
        let attempts = Arc::clone(permit.attempts());
        let arguments = permit.into_arguments();
        // `serde_json::to_string` is twice as fast as `Value::to_string`, which uses the formatting machinery.
        let input_raw = serde_json::to_string(&arguments)
            .map_err(|error| ToolContractError::final_failure(error.to_string()))?;
        let request = ToolRequest {
            request_id: cx.effect_key().to_string(),
            task_id: if origin.task.is_empty() { cx.run_id().to_string() } else { origin.task },
            agent: cx.agent().to_owned(),
            input_raw,
            trace: trace_ids(),
            ..self.request_template.clone()
        };
        Ok(DeclaredToolCall {
            resource: Arc::clone(&self.resource),
            namespace: Arc::clone(&self.namespace),
            services: self.services.clone(),
            runtime,
            arguments: Arc::new(arguments),
            request: Arc::new(request),
            cx,
            attempts,
        })
    }
}

impl Tool for DeclaredTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        match self.prepare(permit, cx) {
            Ok(call) => async move { call.run().await.map_err(ToolError::Fault) }.boxed(),
            Err(fault) => std::future::ready(Err(ToolError::Fault(fault))).boxed(),
        }
    }
}

/// Builds the template of every request to the tool.
fn request_template(resource: &ToolResource, namespace: &str) -> ToolRequest {
    let retry = &resource.runtime.retry;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let auth = resource.auth.as_ref().map(|auth| RequestAuth {
        profile: auth.profile.to_string(),
        secret_ref: auth.secret_ref.clone(),
        scopes: auth.scopes.clone(),
    });
    ToolRequest {
        tool_contract_version: CONTRACT_VERSION.to_owned(),
        namespace: namespace.to_owned(),
        tool: RequestTool {
            name: resource.name.clone(),
            operation: OPERATION_INVOKE.to_owned(),
            capabilities: resource.capabilities.clone(),
            risk_level: resource.risk_level.to_string(),
        },
        runtime: RequestRuntime {
            mode: resource.kind.to_string(),
            timeout_ms: millis(resource.runtime.timeout.0),
            max_attempts: u64::from(retry.max_attempts),
            backoff: retry.backoff.to_string(),
            max_backoff_ms: millis(retry.max_backoff.0),
            jitter: retry.jitter != ToolRetryJitter::None,
        },
        auth: auth.unwrap_or_default(),
        attempt: 1,
        ..ToolRequest::default()
    }
}

/// Returns the maximum duration of all attempts, including one more after credentials were invalidated.
fn total_timeout(resource: &ToolResource) -> Duration {
    let retry = &resource.runtime.retry;
    let attempts = retry.max_attempts.saturating_add(1);
    // A server may ask for a longer pause, up to the maximum.
    let pauses = retry.max_backoff.0.saturating_mul(retry.max_attempts.saturating_sub(1));
    let active = resource.runtime.timeout.0.saturating_mul(attempts);
    active.saturating_add(pauses).saturating_add(OVERHEAD)
}

/// Returns the ids of the current trace. They are empty if there is none.
fn trace_ids() -> TraceIds {
    let Some(parent) = trace::current_traceparent() else { return TraceIds::default() };
    let mut fields = parent.split('-').skip(1).map(str::to_owned);
    TraceIds {
        trace_id: fields.next().unwrap_or_default(),
        span_id: fields.next().unwrap_or_default(),
    }
}
