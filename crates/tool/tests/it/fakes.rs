//! Fakes of the services that declared tools need: runtime, credentials, redactor and sinks.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::Env;
use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolRequest};
use provost_core::resource::{IsolationMode, ToolAuth, ToolResource, ToolType};
use provost_redact::{Redact, RedactChunks};
use provost_tool::{
    CredentialProvider, Credentials, DeclaredTool, Guard, GuardDecision, NoCredentials, RecordSink,
    RuntimeRegistry, RuntimeServices, SinkError, Tool, ToolContext, ToolError, ToolInvocation,
    ToolOutput, ToolRuntime,
};
use serde_json::{Value, json};

use crate::support;

/// Behaviour of one attempt.
pub(crate) enum FakeAttempt {
    Respond(Result<&'static str, ToolContractError>),
    /// Responds after a delay.
    Slow(Duration),
    /// Never ends and ignores cancellation.
    Hang,
    Panic,
}

/// Runtime with scripted attempts. It records the invocations.
pub(crate) struct FakeRuntime {
    pub(crate) kind: ToolType,
    pub(crate) isolation: IsolationMode,
    pub(crate) acts: Mutex<VecDeque<FakeAttempt>>,
    pub(crate) seen: Mutex<Vec<RecordedAttempt>>,
    pub(crate) refuses: Option<ToolContractError>,
}

/// Data of one invocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordedAttempt {
    pub(crate) attempt: u32,
    pub(crate) effect_key: String,
    pub(crate) token: Option<String>,
    pub(crate) at: tokio::time::Instant,
    pub(crate) request: ToolRequest,
}

impl FakeRuntime {
    pub(crate) fn new(acts: impl IntoIterator<Item = FakeAttempt>) -> Arc<Self> {
        Arc::new(Self::with(ToolType::Http, IsolationMode::None, acts))
    }

    pub(crate) fn with(
        kind: ToolType,
        isolation: IsolationMode,
        acts: impl IntoIterator<Item = FakeAttempt>,
    ) -> Self {
        let (acts, seen) = (Mutex::new(acts.into_iter().collect()), Mutex::default());
        Self { kind, isolation, acts, seen, refuses: None }
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl ToolRuntime for FakeRuntime {
    fn kind(&self) -> ToolType {
        self.kind
    }

    fn isolation(&self) -> IsolationMode {
        self.isolation
    }

    fn check(&self, _tool: &ToolResource) -> Result<(), ToolContractError> {
        self.refuses.clone().map_or(Ok(()), Err)
    }

    fn invoke(
        &self,
        attempt: ToolInvocation,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let act = self.acts.lock().unwrap().pop_front().expect("no attempt was expected");
        let token = attempt.credentials.headers.first().map(|(_, token)| token.expose().clone());
        self.seen.lock().unwrap().push(RecordedAttempt {
            attempt: attempt.request.attempt,
            effect_key: attempt.effect_key,
            token,
            at: tokio::time::Instant::now(),
            request: ToolRequest::clone(&attempt.request),
        });
        (attempt.progress)("half way with hunter2".to_owned());
        async move {
            match act {
                FakeAttempt::Respond(answer) => answer.map(ToolOutput::text),
                FakeAttempt::Slow(time) => {
                    tokio::time::sleep(time).await;
                    Ok(ToolOutput::text("at last"))
                }
                FakeAttempt::Hang => std::future::pending().await,
                FakeAttempt::Panic => panic!("the runtime fell"),
            }
        }
        .boxed()
    }
}

/// Provider of numbered tokens. Each token is valid until it is invalidated.
#[derive(Default)]
pub(crate) struct Tokens {
    pub(crate) invalidated: Mutex<u32>,
    pub(crate) keeps: bool,
    pub(crate) fails: bool,
}

impl CredentialProvider for Tokens {
    fn credentials<'a>(
        &'a self,
        _namespace: &'a str,
        _auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        let number = *self.invalidated.lock().unwrap();
        let token = Secret::from(format!("token-{number}"));
        let found = Credentials { headers: vec![("authorization".to_owned(), token)] };
        let code = provost_core::contract::ToolErrorCode::SecretResolutionFailed;
        let failed = || ToolContractError::new(code, "the store does not answer");
        std::future::ready(if self.fails { Err(failed()) } else { Ok(found) }).boxed()
    }

    fn invalidate<'a>(&'a self, _namespace: &'a str, _auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        *self.invalidated.lock().unwrap() += 1;
        std::future::ready(!self.keeps).boxed()
    }
}

pub(crate) fn host(runtime: Arc<FakeRuntime>) -> RuntimeServices {
    let mut runtimes = RuntimeRegistry::default();
    runtimes.add(runtime).unwrap();
    RuntimeServices {
        runtimes: Arc::new(runtimes),
        credentials: Arc::new(NoCredentials),
        env: Env::simulated(1),
    }
}

/// A declared tool from its manifest; a name and an endpoint are there already.
pub(crate) fn resource(more: Value) -> ToolResource {
    let mut manifest = json!({"name": "pay", "endpoint": "https://pay.test"});
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(manifest).unwrap()
}

pub(crate) fn governed(more: Value, host: RuntimeServices) -> Arc<dyn Tool> {
    Arc::new(DeclaredTool::new(resource(more), "default", host).unwrap())
}

/// Checks and runs one call.
pub(crate) async fn run(
    guard: &Guard,
    tool: &Arc<dyn Tool>,
    cx: ToolContext,
) -> Result<ToolOutput, ToolError> {
    match guard.check(tool, &support::call(tool, &json!({})), false) {
        GuardDecision::Allow(permit) => guard.run(permit, cx).await,
        other => panic!("not allowed: {}", support::verdict(other)),
    }
}

/// The fault of a call of a declared tool.
pub(crate) async fn fault(tool: &Arc<dyn Tool>) -> ToolContractError {
    match run(&Guard::default(), tool, support::cx()).await {
        Err(ToolError::Fault(fault)) => fault,
        other => panic!("no fault: {other:?}"),
    }
}

/// Remembers records, or fails.
pub(crate) struct RecordList<E> {
    pub(crate) records: Mutex<Vec<E>>,
    pub(crate) fails: bool,
}

impl<E> RecordList<E> {
    pub(crate) fn new(fails: bool) -> Arc<Self> {
        Arc::new(Self { records: Mutex::new(Vec::new()), fails })
    }
}

impl<E: Send + 'static> RecordSink<E> for RecordList<E> {
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>> {
        let result = if self.fails {
            Err(SinkError("the disk is full".to_owned()))
        } else {
            self.records.lock().unwrap().push(event);
            Ok(())
        };
        std::future::ready(result).boxed()
    }
}

/// Knows one secret.
pub(crate) struct FakeRedactor;

pub(crate) const SECRET: &str = "hunter2";

impl Redact for FakeRedactor {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.contains(SECRET) { Cow::Owned(text.replace(SECRET, "[gone]")) } else { text.into() }
    }

    fn stream(&self) -> Box<dyn RedactChunks> {
        Box::new(HunterStream(Vec::new()))
    }
}

/// Holds back as much as could be the start of the secret.
struct HunterStream(Vec<u8>);

impl RedactChunks for HunterStream {
    fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(chunk);
        let text = String::from_utf8_lossy(&self.0).replace(SECRET, "[gone]").into_bytes();
        let sure = text.len().saturating_sub(SECRET.len() - 1);
        self.0 = text[sure..].to_vec();
        text[..sure].to_vec()
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.0
    }
}
