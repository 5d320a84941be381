//! Calls that may have happened although they failed: none of them is made a second time unless that does no harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use provost_core::Env;
use provost_core::contract::{RequestTool, ToolRequest, ToolResponse};
use provost_core::recovery::EffectClass;
use provost_core::resource::{GrpcEncoding, HumanDuration, RetrySpec, ToolResource, ToolType};
use provost_tool::{
    DeclaredTool, EnvelopeExecutor, Guard, NoCredentials, RuntimeRegistry, RuntimeServices, Tool,
    ToolRuntime,
};
use provost_tool_runtime::conformance::{Scenario, TestBackend as _};
use provost_tool_runtime::{
    A2aRuntime, CallbackOptions, CallbackRuntime, ExternalRuntime, GrpcRuntime, HttpRuntime,
};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use crate::grpc::GrpcBackend;
use crate::support::http_client;

/// How often each call here may be made.
const ATTEMPTS: u32 = 3;

/// Calls a tool through the guarded path, with attempts.
async fn governed(runtime: Arc<dyn ToolRuntime>, mut tool: ToolResource) -> ToolResponse {
    let backoff = HumanDuration(std::time::Duration::from_millis(1));
    tool.runtime.retry =
        RetrySpec { max_attempts: ATTEMPTS, backoff, ..tool.runtime.retry.clone() };
    let request = ToolRequest {
        request_id: "req-1".to_owned(),
        tool: RequestTool { name: tool.name.clone(), ..RequestTool::default() },
        namespace: "default".to_owned(),
        agent: "a".to_owned(),
        input_raw: json!({ "message": "hi", "text": "hi" }).to_string(),
        ..ToolRequest::default()
    };
    let mut runtimes = RuntimeRegistry::default();
    runtimes.add(runtime).unwrap();
    let host = RuntimeServices {
        runtimes: Arc::new(runtimes),
        credentials: Arc::new(NoCredentials),
        env: Env::system(),
    };
    let tool = Arc::new(DeclaredTool::new(tool, "default", host).unwrap()) as Arc<dyn Tool>;
    let executor = EnvelopeExecutor::new(Guard::default(), [tool], Env::system());
    executor.execute(request, CancellationToken::new()).await
}

fn doubtful(response: &ToolResponse) -> bool {
    let error = response.error.as_ref().expect("it fails");
    error.details.get("outcome").is_some_and(|word| word == "unknown")
}

/// A server that answers every call with a status and counts them. It has the card of an agent as well.
async fn says(status: StatusCode) -> (String, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let card = json!({ "name": "a", "supportedInterfaces": [
        { "url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
    ] });
    let answer = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { status }
    };
    let app = Router::new()
        .route("/.well-known/agent-card.json", get(|| async move { axum::Json(card) }))
        .route("/rpc", post(answer.clone()))
        .route("/", post(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (endpoint, calls)
}

fn over_http() -> [(ToolType, Arc<dyn ToolRuntime>); 4] {
    let webhook = CallbackRuntime::new(http_client(), CallbackOptions::default());
    [
        (ToolType::Http, Arc::new(HttpRuntime::new(http_client()))),
        (ToolType::External, Arc::new(ExternalRuntime::new(http_client()))),
        (ToolType::WebhookCallback, Arc::new(webhook)),
        (ToolType::A2a, Arc::new(A2aRuntime::new(http_client()))),
    ]
}

#[tokio::test]
async fn a_gateway_that_lost_its_server_leaves_a_doubt() {
    let harmless = [EffectClass::Pure, EffectClass::Idempotent, EffectClass::Keyed];
    let once = [EffectClass::Opaque, EffectClass::Provable, EffectClass::Transactional];
    for status in [500, 502, 504, 520] {
        for (kind, runtime) in over_http() {
            for effect in harmless.into_iter().chain(once) {
                let (endpoint, calls) = says(StatusCode::from_u16(status).unwrap()).await;
                let mut tool = ToolResource::new("t", kind, endpoint);
                tool.effect = effect;
                let response = governed(Arc::clone(&runtime), tool).await;
                let made = if once.contains(&effect) { 1 } else { ATTEMPTS as usize };
                assert_eq!(calls.load(Ordering::SeqCst), made, "{kind} {effect} {status}");
                assert!(doubtful(&response), "{kind} {effect} {status}: {response:?}");
                let retryable = response.error.unwrap().retryable;
                assert_eq!(retryable, !once.contains(&effect), "{kind} {effect} {status}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_not_begun_may_be_tried_again_whatever_it_does() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        for (kind, runtime) in over_http() {
            let (endpoint, calls) = says(status).await;
            let tool = ToolResource::new("t", kind, endpoint);
            assert_eq!(tool.effect, EffectClass::Opaque);
            let response = governed(runtime, tool).await;
            assert_eq!(calls.load(Ordering::SeqCst), ATTEMPTS as usize, "{kind} {status}");
            assert!(!doubtful(&response), "{kind} {status}: {response:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_after_the_request_leaves_a_doubt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            if matches!(stream.read(&mut head).await, Ok(size) if size > 0) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    for (kind, runtime) in over_http() {
        if kind == ToolType::A2a {
            // It asks for the card first, which leaves no doubt.
            continue;
        }
        let before = heard.load(Ordering::SeqCst);
        let response = governed(runtime, ToolResource::new("t", kind, endpoint.clone())).await;
        assert_eq!(heard.load(Ordering::SeqCst) - before, 1, "{kind}");
        assert!(doubtful(&response), "{kind}: {response:?}");
    }
}

#[tokio::test]
async fn a_card_that_cannot_be_had_leaves_no_doubt() {
    let cards = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cards);
    let card = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { StatusCode::BAD_GATEWAY }
    };
    let app = Router::new().route("/.well-known/agent-card.json", get(card));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let runtime = Arc::new(A2aRuntime::new(http_client()));
    let response = governed(runtime, ToolResource::new("t", ToolType::A2a, endpoint)).await;
    assert_eq!(cards.load(Ordering::SeqCst), ATTEMPTS as usize);
    assert!(!doubtful(&response), "{response:?}");
}

#[tokio::test]
async fn a_grpc_service_that_is_not_there_any_more_leaves_a_doubt() {
    for (effect, made) in [(EffectClass::Opaque, 1), (EffectClass::Keyed, 3)] {
        let runtime = Arc::new(GrpcRuntime::new(http_client()));
        let backend = GrpcBackend::start(GrpcEncoding::Protobuf, runtime).await;
        // It says `Unavailable` twice, and works the third time.
        let mut tool = backend.tool(Scenario::Flaky).unwrap();
        tool.effect = effect;
        let response = governed(backend.runtime(), tool).await;
        assert_eq!(backend.observed_calls().unwrap().len(), made, "{effect}");
        assert_eq!(response.error.is_some(), made == 1, "{response:?}");
        assert!(made > 1 || doubtful(&response), "{response:?}");
    }
}

#[tokio::test]
async fn a_grpc_server_that_cannot_be_reached_leaves_no_doubt() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut tool = ToolResource::new("t", ToolType::Grpc, address.to_string());
    tool.grpc = Some(provost_core::resource::GrpcSpec { plaintext: true, ..Default::default() });
    let response = governed(Arc::new(GrpcRuntime::new(http_client())), tool).await;
    assert!(!doubtful(&response), "{response:?}");
    assert_eq!(response.error.unwrap().details["attempts"], ATTEMPTS.to_string());
}
