//! What declared tools need, in small: a runtime that does as it is told, credentials, governors, sinks, a spill.

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
    Attempt, Authenticator, Credentials, GovernedTool, Guard, NoCredentials, Runtimes, Sink,
    SinkError, Tool, ToolCx, ToolError, ToolHost, ToolOutput, ToolRuntime, Verdict,
};
use serde_json::{Value, json};

use crate::stage;

/// What one attempt does.
pub(crate) enum Act {
    Answer(Result<&'static str, ToolContractError>),
    /// Waits, then answers.
    Slow(Duration),
    /// Never ends and does not look at anything.
    Hang,
    Panic,
}

/// A runtime that does as it is told, and remembers what it was asked.
pub(crate) struct Puppet {
    pub(crate) kind: ToolType,
    pub(crate) isolation: IsolationMode,
    pub(crate) acts: Mutex<VecDeque<Act>>,
    pub(crate) seen: Mutex<Vec<Seen>>,
    pub(crate) refuses: Option<ToolContractError>,
}

/// What an attempt was given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) attempt: u32,
    pub(crate) effect_key: String,
    pub(crate) token: Option<String>,
    pub(crate) at: tokio::time::Instant,
    pub(crate) request: ToolRequest,
}

impl Puppet {
    pub(crate) fn of(acts: impl IntoIterator<Item = Act>) -> Arc<Self> {
        Arc::new(Self::with(ToolType::Http, IsolationMode::None, acts))
    }

    pub(crate) fn with(
        kind: ToolType,
        isolation: IsolationMode,
        acts: impl IntoIterator<Item = Act>,
    ) -> Self {
        let (acts, seen) = (Mutex::new(acts.into_iter().collect()), Mutex::default());
        Self { kind, isolation, acts, seen, refuses: None }
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

impl ToolRuntime for Puppet {
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
        attempt: Attempt,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolContractError>> {
        let act = self.acts.lock().unwrap().pop_front().expect("no attempt was expected");
        let token = attempt.credentials.headers.first().map(|(_, token)| token.expose().clone());
        self.seen.lock().unwrap().push(Seen {
            attempt: attempt.request.attempt,
            effect_key: attempt.effect_key,
            token,
            at: tokio::time::Instant::now(),
            request: ToolRequest::clone(&attempt.request),
        });
        (attempt.progress)("half way with hunter2".to_owned());
        async move {
            match act {
                Act::Answer(answer) => answer.map(ToolOutput::text),
                Act::Slow(time) => {
                    tokio::time::sleep(time).await;
                    Ok(ToolOutput::text("at last"))
                }
                Act::Hang => std::future::pending().await,
                Act::Panic => panic!("the puppet fell"),
            }
        }
        .boxed()
    }
}

/// Tokens one after another; each is good until it is thrown away.
#[derive(Default)]
pub(crate) struct Tokens {
    pub(crate) thrown_away: Mutex<u32>,
    pub(crate) keeps: bool,
    pub(crate) fails: bool,
}

impl Authenticator for Tokens {
    fn credentials<'a>(
        &'a self,
        _namespace: &'a str,
        _auth: &'a ToolAuth,
    ) -> BoxFuture<'a, Result<Credentials, ToolContractError>> {
        let number = *self.thrown_away.lock().unwrap();
        let token = Secret::from(format!("token-{number}"));
        let found = Credentials { headers: vec![("authorization".to_owned(), token)] };
        let code = provost_core::contract::ToolErrorCode::SecretResolutionFailed;
        let failed = || ToolContractError::new(code, "the store does not answer");
        std::future::ready(if self.fails { Err(failed()) } else { Ok(found) }).boxed()
    }

    fn evict<'a>(&'a self, _namespace: &'a str, _auth: &'a ToolAuth) -> BoxFuture<'a, bool> {
        *self.thrown_away.lock().unwrap() += 1;
        std::future::ready(!self.keeps).boxed()
    }
}

pub(crate) fn host(runtime: Arc<Puppet>) -> ToolHost {
    let mut runtimes = Runtimes::default();
    runtimes.add(runtime).unwrap();
    ToolHost {
        runtimes: Arc::new(runtimes),
        authenticator: Arc::new(NoCredentials),
        env: Env::simulated(1),
    }
}

/// A declared tool from its manifest; a name and an endpoint are there already.
pub(crate) fn resource(more: Value) -> ToolResource {
    let mut manifest = json!({"name": "pay", "endpoint": "https://pay.test"});
    manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(manifest).unwrap()
}

pub(crate) fn governed(more: Value, host: ToolHost) -> Arc<dyn Tool> {
    Arc::new(GovernedTool::new(resource(more), "default", host).unwrap())
}

/// Checks and runs one call.
pub(crate) async fn run(
    guard: &Guard,
    tool: &Arc<dyn Tool>,
    cx: ToolCx,
) -> Result<ToolOutput, ToolError> {
    match guard.check(tool, &stage::call(tool, &json!({})), false) {
        Verdict::Allow(permit) => guard.run(permit, cx).await,
        other => panic!("not allowed: {}", stage::verdict(other)),
    }
}

/// The fault of a call of a declared tool.
pub(crate) async fn fault(tool: &Arc<dyn Tool>) -> ToolContractError {
    match run(&Guard::default(), tool, stage::cx()).await {
        Err(ToolError::Fault(fault)) => fault,
        other => panic!("no fault: {other:?}"),
    }
}

/// Remembers records, or fails.
pub(crate) struct Book<E> {
    pub(crate) kept: Mutex<Vec<E>>,
    pub(crate) fails: bool,
}

impl<E> Book<E> {
    pub(crate) fn new(fails: bool) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::new(Vec::new()), fails })
    }
}

impl<E: Send + 'static> Sink<E> for Book<E> {
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>> {
        let result = if self.fails {
            Err(SinkError("the disk is full".to_owned()))
        } else {
            self.kept.lock().unwrap().push(event);
            Ok(())
        };
        std::future::ready(result).boxed()
    }
}

/// Knows one secret.
pub(crate) struct Hunter;

pub(crate) const SECRET: &str = "hunter2";

impl Redact for Hunter {
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
