//! A tool server of our own that acts out scenes: plain HTTP, the contract, answers that come later, and A2A.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use provost_core::contract::{ToolContractError, ToolErrorCode, ToolRequest, ToolResponse};
use provost_tool_runtime::conformance::{ObservedCall, Scenario};
use provost_tool_runtime::{CALLBACK_TOKEN_HEADER, CALLBACK_URL_HEADER, CallbackRegistry};
use serde_json::{Value, json};

/// Failures of a flaky scene before it works.
const FLAKY_FAILURES: u32 = 2;

/// A server.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) acts: Arc<Acts>,
}

/// What it knows.
#[derive(Default)]
pub(crate) struct Acts {
    pub(crate) seen: Mutex<Vec<ObservedCall>>,
    pub(crate) busy: AtomicUsize,
    tries: Mutex<HashMap<String, u32>>,
    later: Mutex<HashMap<String, Value>>,
    pub(crate) cancelled: Mutex<Vec<String>>,
    numbers: AtomicU32,
    pub(crate) callbacks: Mutex<Option<CallbackRegistry>>,
}

/// Counts a call while it is worked on.
pub(crate) struct Busy(Arc<Acts>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Acts {
    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(self))
    }

    /// A number that no other tool has.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::SeqCst)
    }

    /// True while a flaky scene fails.
    pub(crate) fn fails_still(&self, id: &str) -> bool {
        let mut tries = self.tries.lock().unwrap();
        let count = tries.entry(id.to_owned()).or_default();
        *count += 1;
        *count <= FLAKY_FAILURES
    }

    pub(crate) fn see(&self, seen: ObservedCall) {
        self.seen.lock().unwrap().push(seen);
    }

    /// What a scene makes of a request of the contract. `None` hangs.
    pub(crate) fn answer(
        &self,
        scene: Scenario,
        id: &str,
        request: &ToolRequest,
    ) -> Option<ToolResponse> {
        let arguments: Value = serde_json::from_str(&request.encoded_input()).unwrap_or_default();
        let text = arguments["text"].as_str().unwrap_or_default().to_owned();
        let fault = |code, retryable| {
            Err(ToolContractError {
                retryable,
                ..ToolContractError::new(code, "as the scene says")
            })
        };
        let came = match scene {
            Scenario::Hang => return None,
            Scenario::Flaky if self.fails_still(id) => fault(ToolErrorCode::ExecutionFailed, true),
            Scenario::Broken => fault(ToolErrorCode::ExecutionFailed, false),
            Scenario::Unauthorised => fault(ToolErrorCode::AuthInvalid, false),
            Scenario::Forbidden => fault(ToolErrorCode::AuthForbidden, false),
            Scenario::Endless => Ok("x".repeat(5 * 1024 * 1024)),
            _ => Ok(text),
        };
        let mut response = ToolResponse::of(request, came, 1);
        if scene == Scenario::WrongId {
            response.request_id = "somebody-elses".to_owned();
        }
        Some(response)
    }
}

/// The word of a scene in paths.
pub(crate) fn scene_of(word: &str) -> Scenario {
    let all = [
        Scenario::Echo,
        Scenario::Hang,
        Scenario::Flaky,
        Scenario::Broken,
        Scenario::Unauthorised,
        Scenario::Forbidden,
        Scenario::Garbage,
        Scenario::WrongId,
        Scenario::Endless,
    ];
    all.into_iter().find(|scene| format!("{scene:?}") == word).unwrap()
}

pub(crate) fn seen_of(headers: &HeaderMap, body: &[u8]) -> ObservedCall {
    let text = |name: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    ObservedCall {
        request_id: text("x-request-id"),
        trace_id: text("traceparent").split('-').nth(1).unwrap_or_default().to_owned(),
        attempt: text("x-tool-attempt").parse().unwrap_or_default(),
        authorization: text("authorization"),
        body: String::from_utf8_lossy(body).into_owned(),
    }
}

impl Backend {
    /// Starts one.
    pub(crate) async fn start() -> Self {
        let acts = Arc::new(Acts::default());
        let app = Router::new()
            .route("/http/{scene}/{id}", post(plain))
            .route("/external/{scene}/{id}", post(external))
            .route("/later/{scene}/{id}", post(later))
            .route("/later/{scene}/{id}/{request}", get(look))
            .route("/callbacks/{request}", post(callback))
            .route("/a2a/{scene}/{id}/.well-known/agent-card.json", get(card))
            .route("/a2a/{scene}/{id}/rpc", post(rpc))
            .with_state(Arc::clone(&acts));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, acts }
    }

    /// The same behind a reverse proxy.
    pub(crate) async fn behind_proxy(&self) -> Self {
        let target = self.address;
        let client = provost_net::NetClient::new(provost_net::NetPolicy::open());
        let pass = move |request: Request| proxied(client.clone(), target, request);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().fallback(pass);
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, acts: Arc::clone(&self.acts) }
    }

    /// The address of a scene that starts anew.
    pub(crate) fn url(&self, wire: &str, scene: Scenario) -> String {
        format!("http://{}/{wire}/{scene:?}/{}", self.address, self.acts.number())
    }
}

/// Passes a request on and its answer back.
async fn proxied(client: provost_net::NetClient, target: SocketAddr, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let url = provost_net::Url::parse(&format!("http://{target}{}", head.uri)).unwrap();
    let deadline = std::time::Instant::now() + crate::support::MAX_WAIT;
    let mut onward = provost_net::NetRequest::new(head.method, url, deadline);
    onward.headers = head.headers;
    onward.body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let Ok(answer) = client.send(onward).await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, mut headers) = (answer.status, answer.headers.clone());
    headers.remove("transfer-encoding");
    headers.insert("via", "1.1 proxy".parse().unwrap());
    (status, headers, Body::from_stream(answer.stream())).into_response()
}

type Acting = State<Arc<Acts>>;

fn endless() -> Response {
    let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
    let chunks = futures::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
    Body::from_stream(chunks).into_response()
}

async fn plain(
    State(acts): Acting,
    Path((word, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let _busy = acts.begin();
    acts.see(seen_of(&headers, &body));
    let arguments: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = arguments["text"].as_str().unwrap_or_default().to_owned();
    match scene_of(&word) {
        Scenario::Hang => std::future::pending().await,
        Scenario::Flaky if acts.fails_still(&id) => {
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "0")], "busy").into_response()
        }
        Scenario::Broken => (StatusCode::UNPROCESSABLE_ENTITY, "no").into_response(),
        Scenario::Unauthorised => (StatusCode::UNAUTHORIZED, "who?").into_response(),
        Scenario::Forbidden => (StatusCode::FORBIDDEN, "no").into_response(),
        Scenario::Garbage => "{\"status\": \"ok\"".into_response(),
        Scenario::WrongId => {
            let response =
                json!({"request_id": "another", "status": "ok", "output": {"result": text}});
            response.to_string().into_response()
        }
        Scenario::Endless => endless(),
        Scenario::Echo | Scenario::Flaky => text.into_response(),
    }
}

fn envelope_of(acts: &Acts, headers: &HeaderMap, body: &[u8]) -> ToolRequest {
    let request: ToolRequest = serde_json::from_slice(body).unwrap();
    assert_eq!(headers["x-tool-contract-version"], "v1");
    let mut seen = seen_of(headers, body);
    seen.request_id.clone_from(&request.request_id);
    seen.trace_id.clone_from(&request.trace.trace_id);
    seen.attempt = request.attempt;
    acts.see(seen);
    request
}

async fn external(
    State(acts): Acting,
    Path((word, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let _busy = acts.begin();
    let request = envelope_of(&acts, &headers, &body);
    let scene = scene_of(&word);
    match scene {
        Scenario::Garbage => return "<html>".into_response(),
        Scenario::Endless => return endless(),
        _ => {}
    }
    match acts.answer(scene, &id, &request) {
        Some(response) => axum::Json(response).into_response(),
        None => std::future::pending().await,
    }
}

/// Takes a request and answers when it is asked again. With a callback registry, it calls back instead.
async fn later(
    State(acts): Acting,
    Path((word, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = envelope_of(&acts, &headers, &body);
    let scene = scene_of(&word);
    if scene == Scenario::Hang {
        let _busy = acts.begin();
        std::future::pending::<()>().await;
    }
    let response = match scene {
        Scenario::Garbage => Value::String("garbage".to_owned()),
        _ => serde_json::to_value(acts.answer(scene, &id, &request)).unwrap(),
    };
    match headers.get(CALLBACK_URL_HEADER) {
        Some(url) => {
            let url = url.to_str().unwrap().to_owned();
            let token = headers[CALLBACK_TOKEN_HEADER].to_str().unwrap().to_owned();
            tokio::spawn(call_back(url, token, response));
        }
        None => {
            acts.later.lock().unwrap().insert(request.request_id, response);
        }
    }
    StatusCode::ACCEPTED.into_response()
}

/// Posts an answer as a tool would.
async fn call_back(url: String, token: String, response: Value) {
    let client = provost_net::NetClient::new(provost_net::NetPolicy::open());
    let deadline = std::time::Instant::now() + crate::support::MAX_WAIT;
    let url = provost_net::Url::parse(&url).unwrap();
    let request = provost_net::NetRequest::post(url, response.to_string(), deadline)
        .header(CALLBACK_TOKEN_HEADER.parse().unwrap(), token.parse().unwrap());
    client.send(request).await.unwrap();
}

/// The route that a server has for callbacks.
async fn callback(
    State(acts): Acting,
    Path(request): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let Some(callbacks) = acts.callbacks.lock().unwrap().clone() else {
        return StatusCode::NOT_FOUND;
    };
    let token = headers[CALLBACK_TOKEN_HEADER].to_str().unwrap();
    let Ok(response) = serde_json::from_slice(&body) else { return StatusCode::BAD_REQUEST };
    match callbacks.deliver(&request, token, response) {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::NOT_FOUND,
    }
}

async fn look(
    State(acts): Acting,
    Path((_, _, request)): Path<(String, String, String)>,
) -> Response {
    let answer = acts.later.lock().unwrap().remove(&request);
    match answer {
        Some(answer) => axum::Json(answer).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

async fn card(Path((word, id)): Path<(String, String)>) -> Response {
    let interface = json!({
        "url": format!("/a2a/{word}/{id}/rpc"),
        "protocolBinding": "JSONRPC",
        "protocolVersion": "1.0",
        "tenant": "t1",
    });
    axum::Json(json!({ "name": "fake", "supportedInterfaces": [interface] })).into_response()
}

/// The other agent. Its work is over at the second look.
async fn rpc(
    State(acts): Acting,
    Path((word, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let call: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(headers["a2a-version"], "1.0");
    assert_eq!(call["params"]["tenant"], "t1");
    let scene = scene_of(&word);
    let rpc_id = if scene == Scenario::WrongId { json!("another") } else { call["id"].clone() };
    let result = |result: Value| {
        axum::Json(json!({ "jsonrpc": "2.0", "id": rpc_id, "result": result })).into_response()
    };
    let task = |state: &str, parts: Value| {
        json!({
            "id": format!("task-{id}"), "contextId": "c",
            "status": { "state": state, "message": { "parts": [{ "text": "at it" }] } },
            "artifacts": [{ "artifactId": "a", "parts": parts }],
        })
    };
    match call["method"].as_str().unwrap() {
        "CancelTask" => {
            acts.cancelled.lock().unwrap().push(id.clone());
            if scene == Scenario::Hang {
                acts.busy.fetch_sub(1, Ordering::SeqCst);
            }
            result(task("TASK_STATE_CANCELED", json!([])))
        }
        "GetTask" if scene == Scenario::Hang => result(task("TASK_STATE_WORKING", json!([]))),
        "GetTask" => {
            let answer = acts.later.lock().unwrap().get(&id).cloned().unwrap();
            result(task("TASK_STATE_COMPLETED", answer))
        }
        _ => {
            acts.see(seen_of(&headers, &body));
            match scene {
                Scenario::Flaky if acts.fails_still(&id) => {
                    return StatusCode::BAD_GATEWAY.into_response();
                }
                Scenario::Broken => {
                    return result(json!({ "task": task("TASK_STATE_FAILED", json!([])) }));
                }
                Scenario::Unauthorised => return StatusCode::UNAUTHORIZED.into_response(),
                Scenario::Forbidden => return StatusCode::FORBIDDEN.into_response(),
                Scenario::Garbage => return "nonsense".into_response(),
                Scenario::Endless => return endless(),
                Scenario::Hang => {
                    acts.busy.fetch_add(1, Ordering::SeqCst);
                }
                _ => {}
            }
            let parts = call["params"]["message"]["parts"].clone();
            acts.later.lock().unwrap().insert(id.clone(), parts);
            result(json!({ "task": task("TASK_STATE_SUBMITTED", json!([])) }))
        }
    }
}
