//! Servers that mean harm: each gets the right code, in time, and nothing is left behind.

use std::time::{Duration, Instant};

use provost_core::ToolResultPart;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_core::resource::{HttpMethod, HttpSpec, ToolResource, ToolType};
use provost_net::NetPolicy;
use provost_tool::{ToolOutput, ToolRuntime};
use provost_tool_runtime::{
    A2aRuntime, CallbackOptions, CallbackRuntime, ExternalRuntime, HttpRuntime, ToolHttpClient,
};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{attempt, http_client};

/// How long an attempt has here.
const TIMEOUT: Duration = Duration::from_millis(700);
/// How often a machine may be too busy.
const TRIES: usize = 5;
/// How much later than its deadline an answer may come.
const GRACE: Duration = Duration::from_millis(100);

/// A server that writes these bytes to whoever speaks, again and again if it is told to, and never closes.
async fn writes(bytes: Vec<u8>, for_ever: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut heard = [0; 4096];
                if stream.read(&mut heard).await.is_err() {
                    return;
                }
                while stream.write_all(&bytes).await.is_ok() && for_ever {}
                // Keeps the connection until the other side has enough.
                while matches!(stream.read(&mut heard).await, Ok(size) if size > 0) {}
            });
        }
    });
    format!("http://{address}/")
}

fn head(more: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{more}\r\n").into_bytes()
}

/// Makes an attempt that ends in time. A busy machine may make one late; that all are is no accident.
async fn timed(
    runtime: &dyn ToolRuntime,
    tool: &ToolResource,
) -> Result<ToolOutput, ToolContractError> {
    let mut late = Vec::new();
    for _ in 0..TRIES {
        let made = runtime.invoke(attempt(tool, json!({ "text": "x" }), TIMEOUT));
        let started = Instant::now();
        let came = made.await;
        let took = started.elapsed();
        if took <= TIMEOUT + GRACE {
            return came;
        }
        late.push(took);
    }
    panic!("{late:?} at {}", tool.endpoint);
}

fn runtimes() -> Vec<Box<dyn ToolRuntime>> {
    vec![
        Box::new(HttpRuntime::new(http_client())),
        Box::new(ExternalRuntime::new(http_client())),
        Box::new(CallbackRuntime::new(http_client(), CallbackOptions::default())),
        Box::new(A2aRuntime::new(http_client())),
    ]
}

/// What every runtime that speaks HTTP must say of such a server.
async fn all_say(name: &str, bytes: Vec<u8>, for_ever: bool, expected: &[(ToolErrorCode, bool)]) {
    let endpoint = writes(bytes, for_ever).await;
    for runtime in runtimes() {
        let tool = ToolResource::new("t", runtime.kind(), endpoint.as_str());
        let fault = timed(&*runtime, &tool).await.unwrap_err();
        let is = (fault.code, fault.retryable);
        assert!(expected.contains(&is), "{name}, {}: {fault:?}", runtime.kind());
        assert_eq!(fault.reason, fault.code.reason());
        assert!(fault.message.len() < 2_000);
    }
}

const FINAL: (ToolErrorCode, bool) = (ToolErrorCode::ExecutionFailed, false);
const LATE: (ToolErrorCode, bool) = (ToolErrorCode::Timeout, true);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_and_silent_servers_end_in_time() {
    all_say("never answers", Vec::new(), false, &[LATE]).await;
    all_say("half a head", b"HTTP/1.1 200 OK\r\nx: ".to_vec(), false, &[LATE]).await;
    all_say(
        "half a body",
        [head("content-length: 100\r\n"), b"half".to_vec()].concat(),
        false,
        &[LATE],
    )
    .await;
    let garbage = vec![b'\x16'; 4096];
    all_say("no HTTP", garbage, true, &[FINAL]).await;
    let header = [b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'a'; 1 << 20]].concat();
    all_say("an endless head", header, true, &[FINAL]).await;
    let gigabyte = [head("content-length: 1073741824\r\n"), vec![b'x'; 1 << 20]].concat();
    all_say("1 GB", gigabyte, true, &[FINAL]).await;
}

#[tokio::test]
async fn packed_bombs_do_not_go_off() {
    // 200 MB of zeros, packed.
    let zeros = vec![0_u8; 1 << 20];
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..200 {
        std::io::Write::write_all(&mut packer, &zeros).unwrap();
    }
    let bomb = packer.finish().unwrap();
    let more = format!("content-encoding: gzip\r\ncontent-length: {}\r\n", bomb.len());
    all_say("a bomb", [head(&more), bomb].concat(), false, &[FINAL]).await;
}

#[tokio::test]
async fn bytes_that_are_no_text_do_no_harm() {
    let body = [
        head("content-type: text/plain; charset=utf-8\r\ncontent-length: 4\r\n"),
        b"a\xff\xfeb".to_vec(),
    ]
    .concat();
    let endpoint = writes(body, false).await;
    let tool = ToolResource::new("t", ToolType::Http, endpoint.as_str());
    let output = timed(&HttpRuntime::new(http_client()), &tool).await.unwrap();
    assert!(matches!(&output.parts[..], [ToolResultPart::File(_)]), "{output:?}");
    let tool = ToolResource::new("t", ToolType::External, endpoint);
    let fault = timed(&ExternalRuntime::new(http_client()), &tool).await.unwrap_err();
    assert_eq!((fault.code, fault.retryable), FINAL);
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_made_twice() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = [0; 4096];
            if matches!(stream.read(&mut heard).await, Ok(size) if size > 0) {
                stream.write_all(&head("content-length: 10\r\n")).await.ok();
            }
        }
    });
    let mut tool = ToolResource::new("t", ToolType::Http, endpoint);
    let runtime = HttpRuntime::new(http_client());
    let fault = timed(&runtime, &tool).await.unwrap_err();
    assert_eq!((fault.code, fault.retryable), FINAL, "{fault}");
    assert_eq!(fault.details["outcome"], "unknown");
    tool.effect = provost_core::recovery::EffectClass::Idempotent;
    assert!(timed(&runtime, &tool).await.unwrap_err().retryable, "a repeat does no harm");
    let nobody = ToolResource::new("t", ToolType::Http, "http://127.0.0.1:1/");
    let fault = timed(&runtime, &nobody).await.unwrap_err();
    assert!(fault.code == ToolErrorCode::PermissionDenied || fault.retryable, "{fault}");
}

#[tokio::test]
async fn a_tool_opens_the_private_network_only_if_the_operator_lets_it() {
    let policy = NetPolicy { plain_http: true, ..NetPolicy::default() };
    let shut = ToolHttpClient::new(policy);
    let ajar = shut.clone().allow_private_tools(true);
    let runtimes = |http_client: &ToolHttpClient| -> [(ToolType, Box<dyn ToolRuntime>); 5] {
        let out = || http_client.clone();
        let webhook = CallbackRuntime::new(out(), CallbackOptions::default());
        [
            (ToolType::Http, Box::new(HttpRuntime::new(out()))),
            (ToolType::External, Box::new(ExternalRuntime::new(out()))),
            (ToolType::WebhookCallback, Box::new(webhook)),
            (ToolType::A2a, Box::new(A2aRuntime::new(out()))),
            (ToolType::Grpc, Box::new(provost_tool_runtime::GrpcRuntime::new(out()))),
        ]
    };
    for (kind, runtime) in runtimes(&shut) {
        let endpoint = if kind == ToolType::Grpc { "10.0.0.1:443" } else { "http://10.0.0.1/" };
        let mut tool = ToolResource::new("t", kind, endpoint);
        runtime.check(&tool).unwrap();
        tool.allow_private = true;
        let fault = runtime.check(&tool).unwrap_err();
        assert_eq!(fault.code, ToolErrorCode::PermissionDenied, "{kind}");
        assert!(fault.message.contains("--tool-network private"), "{kind}: {fault}");
        let made = runtime.invoke(attempt(&tool, json!({ "message": "hi" }), TIMEOUT));
        assert_eq!(made.await.unwrap_err().code, ToolErrorCode::PermissionDenied, "{kind}");
    }
    for (kind, runtime) in runtimes(&ajar) {
        let endpoint = if kind == ToolType::Grpc { "10.0.0.1:443" } else { "http://10.0.0.1/" };
        let mut tool = ToolResource::new("t", kind, endpoint);
        tool.allow_private = true;
        runtime.check(&tool).unwrap_or_else(|fault| panic!("{kind}: {fault}"));
    }
}

#[tokio::test]
async fn a_redirect_inwards_is_refused() {
    let metadata = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest/\r\ncontent-length: 0\r\n\r\n";
    let endpoint = writes(metadata.as_bytes().to_vec(), false).await;
    let mut tool = ToolResource::new("t", ToolType::Http, endpoint);
    let posted = timed(&HttpRuntime::new(http_client()), &tool).await.unwrap_err();
    assert_eq!(
        (posted.code, posted.retryable),
        FINAL,
        "a redirect of what changes something is not followed"
    );
    tool.http = Some(HttpSpec { method: HttpMethod::Get, ..HttpSpec::default() });
    let read = timed(&HttpRuntime::new(http_client()), &tool).await.unwrap_err();
    assert_eq!(read.code, ToolErrorCode::PermissionDenied, "{read}");
    let closed = HttpRuntime::new(ToolHttpClient::new(NetPolicy::default()));
    let fault = timed(&closed, &tool).await.unwrap_err();
    assert_eq!(fault.code, ToolErrorCode::PermissionDenied, "{fault}");
}
