//! A tool that an operator declared: the one way to whatever lives behind a runtime.
//!
//! It finds the runtime by type and isolation, gets credentials, and makes attempts, each with its own deadline. The caller
//! returns at the deadline even if the runtime ignores it. Rules, records, secrets in outputs and bounds are the guard's.

mod backoff;
mod envelope;
mod invoke;
pub(crate) mod registry;
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

pub use crate::declared::envelope::ContractExecutor;

use crate::declared::invoke::GovernedCall;
use crate::{
    Authenticator, Credentials, Facts, Permit, Runtimes, SpecError, Tool, ToolCx, ToolError,
    ToolFuture, ToolRuntime, ToolSpec, trace,
};

/// The detail of a fault that says that the call may have happened all the same: `outcome` is `unknown`.
pub const OUTCOME_DETAIL: &str = "outcome";
/// The value of [`OUTCOME_DETAIL`].
pub const OUTCOME_UNKNOWN: &str = "unknown";
/// The detail of a fault that says how long the other side asks to wait before the next attempt, in milliseconds.
pub const RETRY_AFTER_DETAIL: &str = "retry_after_ms";
/// The detail of a fault that says how often the call was tried.
pub const ATTEMPTS_DETAIL: &str = "attempts";

/// What a call takes besides its attempts, so that the guard's own deadline never comes first.
const OVERHEAD: Duration = Duration::from_secs(1);

/// Why a declared tool cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GovernedError {
    /// Its definition is not sound.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// A model cannot be told about it.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// What declared tools need: runtimes, credentials, time and chance.
#[derive(Clone)]
pub struct ToolHost {
    /// What reaches tools.
    pub runtimes: Arc<Runtimes>,
    /// What proves who calls.
    pub authenticator: Arc<dyn Authenticator>,
    /// Time and chance.
    pub env: Env,
}

/// An authenticator that has no credentials: a tool that needs some fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCredentials;

impl Authenticator for NoCredentials {
    fn credentials<'a>(
        &'a self,
        _namespace: &'a str,
        auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        let message = format!("there is nothing here that knows secret `{}`", auth.secret_ref);
        let fault = ToolContractError::new(ToolErrorCode::SecretResolutionFailed, message);
        std::future::ready(Err(fault)).boxed()
    }

    fn evict<'a>(&'a self, _namespace: &'a str, _auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }
}

/// A tool that an operator declared.
pub struct GovernedTool {
    spec: ToolSpec,
    resource: Arc<ToolResource>,
    namespace: Arc<str>,
    host: ToolHost,
    /// What every request to it says.
    envelope: ToolRequest,
    /// Whether the runtime can run this definition; it is asked once.
    checked: OnceLock<Result<(), ToolContractError>>,
}

impl GovernedTool {
    /// The tool of a definition in its namespace. A runtime is looked for when it is called.
    pub fn new(
        resource: ToolResource,
        namespace: impl Into<Arc<str>>,
        host: ToolHost,
    ) -> Result<Self, GovernedError> {
        let resource = resource.normalized()?;
        let facts = Facts {
            kind: Some(resource.kind),
            capabilities: resource.capabilities.clone(),
            operations: resource.operations(),
            risk: resource.risk_level,
            is_isolated: resource.isolation() != IsolationMode::None,
        };
        let schema = resource.input_schema.clone();
        let spec = ToolSpec::new(&resource.name, &resource.description, schema)?
            .effect(resource.effect)
            .timeout(whole_time(&resource))
            .facts(facts);
        let namespace: Arc<str> = namespace.into();
        let envelope = envelope(&resource, &namespace);
        let (resource, checked) = (Arc::new(resource), OnceLock::new());
        Ok(Self { spec, resource, namespace, host, envelope, checked })
    }

    /// The definition.
    pub fn resource(&self) -> &ToolResource {
        &self.resource
    }

    /// Finds its runtime and asks it whether it can run this, without calling anything.
    pub fn verify(&self) -> Result<(), ToolContractError> {
        self.runtime().map(drop)
    }

    fn runtime(&self) -> Result<&Arc<dyn ToolRuntime>, ToolContractError> {
        let runtime = self.host.runtimes.select(&self.resource)?;
        self.checked.get_or_init(|| runtime.check(&self.resource)).clone()?;
        Ok(runtime)
    }

    fn begin(&self, permit: Permit, cx: ToolCx) -> Result<GovernedCall, ToolContractError> {
        let origin = permit.origin().cloned().unwrap_or_default();
        if permit.origin().is_some() && *origin.namespace != *self.namespace {
            let message = format!(
                "tool `{}` belongs to namespace `{}`, the run to `{}`",
                self.resource.name, self.namespace, origin.namespace
            );
            return Err(ToolContractError::new(ToolErrorCode::PermissionDenied, message));
        }
        let runtime = Arc::clone(self.runtime()?);
        let attempts = Arc::clone(permit.attempts());
        let arguments = permit.into_arguments();
        // Not by `to_string`, which goes through the machinery of formatting and takes twice as long.
        let input_raw = serde_json::to_string(&arguments)
            .map_err(|error| ToolContractError::final_failure(error.to_string()))?;
        let request = ToolRequest {
            request_id: cx.effect_key().to_string(),
            task_id: if origin.task.is_empty() { cx.run_id().to_string() } else { origin.task },
            agent: cx.agent().to_owned(),
            input_raw,
            trace: trace_ids(),
            ..self.envelope.clone()
        };
        Ok(GovernedCall {
            resource: Arc::clone(&self.resource),
            namespace: Arc::clone(&self.namespace),
            host: self.host.clone(),
            runtime,
            arguments: Arc::new(arguments),
            request: Arc::new(request),
            cx,
            attempts,
        })
    }
}

impl Tool for GovernedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        match self.begin(permit, cx) {
            Ok(call) => async move { call.run().await.map_err(ToolError::Fault) }.boxed(),
            Err(fault) => std::future::ready(Err(ToolError::Fault(fault))).boxed(),
        }
    }
}

/// What every request to a tool says.
fn envelope(resource: &ToolResource, namespace: &str) -> ToolRequest {
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

/// The longest that all attempts together can take, one more for a credential that was no longer valid included.
fn whole_time(resource: &ToolResource) -> Duration {
    let retry = &resource.runtime.retry;
    let attempts = retry.max_attempts.saturating_add(1);
    // A server may ask for a longer pause than ours, up to the longest.
    let pauses = retry.max_backoff.0.saturating_mul(retry.max_attempts.saturating_sub(1));
    let working = resource.runtime.timeout.0.saturating_mul(attempts);
    working.saturating_add(pauses).saturating_add(OVERHEAD)
}

/// The trace that the call belongs to.
fn trace_ids() -> TraceIds {
    let Some(parent) = trace::current() else { return TraceIds::default() };
    let mut fields = parent.split('-').skip(1).map(str::to_owned);
    TraceIds {
        trace_id: fields.next().unwrap_or_default(),
        span_id: fields.next().unwrap_or_default(),
    }
}
