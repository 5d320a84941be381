//! One call of the suite: how it is set up, made and looked at.

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
    Authenticator, ContractExecutor, Credentials, GovernedTool, Guard, NoCredentials, Runtimes,
    Tool, ToolHost,
};
use tokio_util::sync::CancellationToken;

use super::expect::{self, Expected};
use super::{Scene, Stage};

/// Where the tools of the suite belong.
const NAMESPACE: &str = "default";

/// How long one attempt may take where nothing else is said.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// How long is waited for what must happen soon.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How often is looked meanwhile.
const LOOK: Duration = Duration::from_millis(5);
/// The credential of the suite.
pub(crate) const TOKEN: &str = "conformance-token-7f3a";

/// Whether a check holds; nothing if it cannot be played.
pub(crate) type Played = Result<Option<()>, String>;

/// One call, as it is set up.
pub(crate) struct Play<'a> {
    pub(crate) stage: &'a dyn Stage,
    pub(crate) tool: ToolResource,
    pub(crate) request: ToolRequest,
    pub(crate) guard: Guard,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) cancel: CancellationToken,
}

impl<'a> Play<'a> {
    /// A scene; `None` if the backend cannot act it out.
    pub(crate) fn of(stage: &'a dyn Stage, scene: Scene) -> Option<Self> {
        let mut tool = stage.tool(scene)?;
        tool.runtime.timeout = HumanDuration(TIMEOUT);
        // The suite repeats calls, so it must be told that this does no harm.
        tool.effect = EffectClass::Idempotent;
        let request = ToolRequest {
            request_id: format!("conformance-{}-{scene:?}", stage.name()),
            tool: RequestTool { name: tool.name.clone(), ..Default::default() },
            namespace: NAMESPACE.to_owned(),
            agent: "conformance".to_owned(),
            input_raw: stage.arguments(scene, "grüezi").to_string(),
            trace: TraceIds {
                trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
                span_id: "b7ad6b7169203331".to_owned(),
            },
            ..ToolRequest::default()
        };
        let (guard, cancel) = (Guard::default(), CancellationToken::new());
        Some(Self { stage, tool, request, guard, authenticator: Arc::new(NoCredentials), cancel })
    }

    /// Tries this often.
    pub(crate) fn retry(mut self, attempts: u32) -> Self {
        let backoff = HumanDuration(Duration::from_millis(1));
        self.tool.runtime.retry =
            RetrySpec { max_attempts: attempts, backoff, ..RetrySpec::default() };
        self
    }

    /// With a credential.
    pub(crate) fn token(mut self) -> Self {
        self.tool.auth = Some(ToolAuth { secret_ref: "s".to_owned(), ..ToolAuth::default() });
        self.authenticator = Arc::new(OneToken);
        self
    }

    /// Makes the call; the answer is sound as an envelope.
    pub(crate) fn call(self) -> BoxFuture<'a, Result<ToolResponse, String>> {
        Box::pin(self.made())
    }

    async fn made(self) -> Result<ToolResponse, String> {
        let mut runtimes = Runtimes::default();
        runtimes.add(self.stage.runtime()).map_err(|error| error.to_string())?;
        let host = ToolHost {
            runtimes: Arc::new(runtimes),
            authenticator: self.authenticator,
            env: Env::system(),
        };
        let tool =
            GovernedTool::new(self.tool, NAMESPACE, host).map_err(|error| error.to_string())?;
        let tools = [Arc::new(tool) as Arc<dyn Tool>];
        let executor = ContractExecutor::new(self.guard, tools, Env::system());
        let response = executor.execute(self.request.clone(), self.cancel).await;
        expect::envelope(&self.request, &response)?;
        Ok(response)
    }
}

/// Plays a scene that must fail in one way.
pub(crate) async fn fails(play: Option<Play<'_>>, expected: Expected) -> Played {
    let Some(play) = play else { return Ok(None) };
    let response = play.call().await?;
    expect::failed(&response, expected).map(Some)
}

/// Plays a scene that must work.
pub(crate) async fn works(play: Option<Play<'_>>) -> Played {
    let Some(play) = play else { return Ok(None) };
    expect::succeeded(&play.call().await?, "grüezi").map(Some)
}

/// Nothing arrives at the backend meanwhile.
pub(crate) async fn unseen(stage: &dyn Stage, play: impl Future<Output = Played>) -> Played {
    let before = stage.seen().map(|seen| seen.len());
    let played = play.await?;
    let after = stage.seen().map(|seen| seen.len());
    if before != after {
        return Err("the backend was called".to_owned());
    }
    Ok(played)
}

/// Looks until something holds, or until patience ends.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() && started.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
    }
}

/// Knows one credential.
struct OneToken;

impl Authenticator for OneToken {
    fn credentials<'a>(
        &'a self,
        _namespace: &'a str,
        _auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        let value = Secret::new(format!("Bearer {TOKEN}"));
        let headers = vec![("authorization".to_owned(), value)];
        std::future::ready(Ok(Credentials { headers })).boxed()
    }

    fn evict<'a>(&'a self, _namespace: &'a str, _auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }
}
