//! HTTP interface of the effect server.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::effect_log::{EffectKind, EffectRequest, EffectResponse, Rejected};
use super::{EffectServer, Shared};

/// Runs an effect server as the main function of a process: prints `ledger <url>` and serves until its input is closed.
///
/// The parent process holds the other end of the input, so the server ends with its parent.
pub fn serve_until_stdin_closes() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let ledger = EffectServer::start().await;
        let (closing, closed) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let _broken = io::copy(&mut io::stdin().lock(), &mut io::sink()).is_err();
            drop(closing);
        });
        let mut stdout = io::stdout();
        writeln!(stdout, "ledger {}", ledger.url())?;
        stdout.flush()?;
        let _closed = closed.await.is_err();
        Ok(())
    })
}

/// Accepts connections until the task is aborted, and handles each in its own task.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection(stream, Arc::clone(&shared)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let nodelay = stream.set_nodelay(true);
    debug_assert!(nodelay.is_ok(), "{nodelay:?}");
    let service = service_fn(move |request| respond(request, Arc::clone(&shared)));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Tests kill callers, so broken connections are expected.
    let _broken = served.await.is_err();
}

/// Routes a request to a call, a probe or a query of the log.
async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<String>, std::convert::Infallible> {
    let (head, body) = request.into_parts();
    let body = read(body).await;
    let path = head.uri.path();
    let answered = match (&head.method, path) {
        (&Method::GET, "/ledger") => Ok(shared.effect_log.lock().to_json()),
        (&Method::GET, _) if path.starts_with("/ledger/wait/") => {
            wait_for_calls(path.trim_start_matches("/ledger/wait/"), &shared).await
        }
        (&Method::POST, _) if path.starts_with("/ledger/") => control(path, &body, &shared),
        (&Method::GET, _) if path.starts_with("/probe/") => {
            let response = shared.effect_log.lock().probe(path.trim_start_matches("/probe/"));
            respond_after_gate(response).await
        }
        (&Method::POST, _) => {
            let header = head.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
            match handle(path, header, &body, &shared) {
                Ok(response) => respond_after_gate(response).await,
                Err(refused) => Err(refused),
            }
        }
        _ => Err(UNKNOWN),
    };
    Ok(respond_with(answered))
}

/// Response to an unknown path.
const UNKNOWN: Rejected = Rejected(404, "there is no such path");

/// Handles a call. Waiting tests are notified after its effect.
fn handle(
    path: &str,
    header: Option<&str>,
    body: &Value,
    shared: &Shared,
) -> Result<EffectResponse, Rejected> {
    let path = EffectKind::parse(path).ok_or(UNKNOWN)?;
    let request = EffectRequest {
        path,
        key: body["key"].as_str().map(ToOwned::to_owned),
        idempotency_key: header.map(ToOwned::to_owned),
        tool: body["tool"].as_str().unwrap_or_default().to_owned(),
        arguments: body["arguments"].clone(),
    };
    let mut effect_log = shared.effect_log.lock();
    let response = effect_log.handle(request);
    shared.calls.send_replace(effect_log.call_count());
    response
}

/// Returns a response after its gate has opened.
async fn respond_after_gate((answer, gate): EffectResponse) -> Result<Value, Rejected> {
    if let Some(gate) = gate {
        let _open = gate.await.is_err();
    }
    Ok(answer)
}

/// Waits for a number of calls, given as text, and returns the log.
async fn wait_for_calls(expected: &str, shared: &Shared) -> Result<Value, Rejected> {
    let expected =
        expected.parse().ok().ok_or(Rejected(400, "the number of calls is no number"))?;
    shared.wait_for_calls(expected).await;
    Ok(shared.effect_log.lock().to_json())
}

/// Pauses responses, resumes responses, or makes probes uncertain.
fn control(path: &str, body: &Value, shared: &Shared) -> Result<Value, Rejected> {
    match path {
        "/ledger/hold" => {
            let path = body["path"].as_str().and_then(EffectKind::parse).ok_or(UNKNOWN)?;
            shared.effect_log.lock().pause_responses(path);
        }
        "/ledger/release" => shared.effect_log.lock().resume_responses(),
        "/ledger/doubt" => {
            let key = body["key"].as_str().ok_or(Rejected(400, "the body has no key"))?;
            shared.effect_log.lock().set_uncertain(key);
        }
        _ => return Err(UNKNOWN),
    }
    Ok(json!({}))
}

/// Converts a result to a JSON response.
fn respond_with(answered: Result<Value, Rejected>) -> Response<String> {
    let (status, body) = match answered {
        Ok(answer) => (200, answer),
        Err(Rejected(status, reason)) => (status, json!({ "error": reason })),
    };
    let mut response = Response::new(body.to_string());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Reads a body as JSON. Returns null if it is not JSON.
async fn read(mut body: Incoming) -> Value {
    let mut whole = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        whole.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
    serde_json::from_slice(&whole).unwrap_or_default()
}
