//! Setup and execution of one call of the suite.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use provost_core::contract::{RequestTool, ToolContractError, ToolRequest, ToolResponse, TraceIds};
use provost_core::recovery::EffectClass;
use provost_core::resource::{HumanDuration, RetrySpec, ToolAuth, ToolResource};
use provost_core::{Env, Secret};
use provost_tool::{
    CredentialProvider, Credentials, DeclaredTool, EnvelopeExecutor, Guard, NoCredentials,
    RuntimeRegistry, RuntimeServices, Tool,
};
use tokio_util::sync::CancellationToken;

use super::expect::{self, Expected};
use super::{Scenario, TestBackend};

/// Namespace of the suite's tools.
const NAMESPACE: &str = "default";

/// Default timeout of one attempt.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time to wait for a condition.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(20);
/// Interval for checking a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Credential of the suite.
pub(crate) const TOKEN: &str = "conformance-token-7f3a";

/// Result of a check. `Ok(None)` means that the backend does not support it.
pub(crate) type CheckResult = Result<Option<()>, String>;

/// One call of a scenario.
pub(crate) struct ScenarioCall<'a> {
    pub(crate) backend: &'a dyn TestBackend,
    pub(crate) tool: ToolResource,
    pub(crate) request: ToolRequest,
    pub(crate) guard: Guard,
    pub(crate) authenticator: Arc<dyn CredentialProvider>,
    pub(crate) cancel: CancellationToken,
}

impl<'a> ScenarioCall<'a> {
    /// Creates the call of a scenario. `None` if the backend does not support it.
    pub(crate) fn new(backend: &'a dyn TestBackend, scenario: Scenario) -> Option<Self> {
        let mut tool = backend.tool(scenario)?;
        tool.runtime.timeout = HumanDuration(TIMEOUT);
        // The suite repeats calls, so they must be idempotent.
        tool.effect = EffectClass::Idempotent;
        let request = ToolRequest {
            request_id: format!("conformance-{}-{scenario:?}", backend.name()),
            tool: RequestTool { name: tool.name.clone(), ..Default::default() },
            namespace: NAMESPACE.to_owned(),
            agent: "conformance".to_owned(),
            input_raw: backend.arguments(scenario, "grüezi").to_string(),
            trace: TraceIds {
                trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
                span_id: "b7ad6b7169203331".to_owned(),
            },
            ..ToolRequest::default()
        };
        let (guard, cancel) = (Guard::default(), CancellationToken::new());
        Some(Self { backend, tool, request, guard, authenticator: Arc::new(NoCredentials), cancel })
    }

    /// Sets the maximum number of attempts.
    pub(crate) fn with_attempts(mut self, attempts: u32) -> Self {
        let backoff = HumanDuration(Duration::from_millis(1));
        self.tool.runtime.retry =
            RetrySpec { max_attempts: attempts, backoff, ..RetrySpec::default() };
        self
    }

    /// Adds a credential.
    pub(crate) fn with_token(mut self) -> Self {
        self.tool.auth = Some(ToolAuth { secret_ref: "s".to_owned(), ..ToolAuth::default() });
        self.authenticator = Arc::new(OneToken);
        self
    }

    /// Executes the call, and validates the response envelope. Returns a boxed future.
    pub(crate) fn execute_boxed(self) -> BoxFuture<'a, Result<ToolResponse, String>> {
        Box::pin(self.execute())
    }

    /// Executes the call, and validates the response envelope.
    async fn execute(self) -> Result<ToolResponse, String> {
        let mut runtimes = RuntimeRegistry::default();
        runtimes.add(self.backend.runtime()).map_err(|error| error.to_string())?;
        let host = RuntimeServices {
            runtimes: Arc::new(runtimes),
            credentials: self.authenticator,
            env: Env::system(),
        };
        let tool =
            DeclaredTool::new(self.tool, NAMESPACE, host).map_err(|error| error.to_string())?;
        let tools = [Arc::new(tool) as Arc<dyn Tool>];
        let executor = EnvelopeExecutor::new(self.guard, tools, Env::system());
        let response = executor.execute(self.request.clone(), self.cancel).await;
        expect::envelope(&self.request, &response)?;
        Ok(response)
    }
}

/// Executes a call. Returns a message unless it fails with this error. `None` if the scenario is not supported.
pub(crate) async fn expect_error(
    call: Option<ScenarioCall<'_>>,
    expected: Expected,
) -> CheckResult {
    let Some(call) = call else { return Ok(None) };
    let response = call.execute_boxed().await?;
    expect::failed(&response, expected).map(Some)
}

/// Executes a call. Returns a message unless it succeeds. `None` if the scenario is not supported.
pub(crate) async fn expect_success(call: Option<ScenarioCall<'_>>) -> CheckResult {
    let Some(call) = call else { return Ok(None) };
    expect::succeeded(&call.execute_boxed().await?, "grüezi").map(Some)
}

/// Executes a check. Returns a message if a call reached the backend.
pub(crate) async fn assert_not_called(
    backend: &dyn TestBackend,
    call: impl Future<Output = CheckResult>,
) -> CheckResult {
    let before = backend.observed_calls().map(|seen| seen.len());
    let played = call.await?;
    let after = backend.observed_calls().map(|seen| seen.len());
    if before != after {
        return Err("the backend was called".to_owned());
    }
    Ok(played)
}

/// Waits until a condition is true, at most [`MAX_WAIT`].
pub(crate) async fn wait_until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() && started.elapsed() < MAX_WAIT {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Credential provider with one token.
struct OneToken;

impl CredentialProvider for OneToken {
    fn credentials<'a>(
        &'a self,
        _namespace: &'a str,
        _auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        let value = Secret::new(format!("Bearer {TOKEN}"));
        let headers = vec![("authorization".to_owned(), value)];
        std::future::ready(Ok(Credentials { headers })).boxed()
    }

    fn invalidate<'a>(&'a self, _namespace: &'a str, _auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }
}
