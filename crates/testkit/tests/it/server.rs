//! The fake provider, read byte by byte.

use provost_core::{StopReason, Usage};
use provost_testkit::{Failure, FakeProvider, Reply, WireKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one request and reads until the server closes the connection.
async fn fetch(provider: &FakeProvider, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nx-mark: 1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

/// The body of a chunked answer.
fn unchunk(answer: &str) -> String {
    let (_, mut rest) = answer.split_once("\r\n\r\n").unwrap();
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&tail[..size]);
        rest = &tail[size + 2..];
    }
    assert!(rest.is_empty(), "{rest}");
    body
}

fn reply() -> Reply {
    Reply::new()
        .reasoning("hm", "sig=")
        .deltas(["Hel", "lo \"you\""])
        .and_call("c1", "f", &json!({"a": 1}))
        .fragment(4)
        .usage(Usage { input: 10, output: 5, cache_read: 4, ..Usage::default() })
}

#[tokio::test]
async fn all_wires_are_spoken() {
    let provider = FakeProvider::start().await;
    provider.replies([
        reply(),
        reply(),
        reply().stop(StopReason::MaxTokens).stop_reason_name("odd"),
    ]);
    let openai = fetch(&provider, "POST", "/v1/chat/completions", "{\"n\":1}").await;
    assert!(openai.contains("content-type: text/event-stream"), "{openai}");
    insta::assert_snapshot!("openai", unchunk(&openai));
    let anthropic = fetch(&provider, "POST", "/v1/messages", "{}").await;
    insta::assert_snapshot!("anthropic", unchunk(&anthropic));
    let odd = fetch(&provider, "POST", "/v1/messages", "{}").await;
    assert!(odd.contains("\"stop_reason\":\"odd\""));
    assert_eq!(provider.bodies(), [json!({"n": 1}), json!({}), json!({})]);
    assert_eq!(provider.requests()[0].header("x-mark"), Some("1"));
    assert_eq!((provider.request_count(), provider.replies_left()), (3, 0));
}

const PATHS: [(WireKind, &str); 4] = [
    (WireKind::OpenAiResponses, "/v1/responses"),
    (WireKind::Gemini, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
    (WireKind::Ollama, "/api/chat"),
    (WireKind::Bedrock, "/model/anthropic.claude/converse-stream"),
];

/// The body of a chunked answer, whatever it holds.
async fn fetch_bytes(provider: &FakeProvider, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let (mut rest, mut body) = (&answer[end + 4..], Vec::new());
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
    (head, body)
}

#[tokio::test]
async fn the_newer_wires_are_spoken_too() {
    let provider = FakeProvider::answering(|_| reply()).await;
    for (wire, path) in PATHS {
        let (head, body) = fetch_bytes(&provider, path).await;
        assert!(head.contains(wire.content_type()), "{head}");
        // Frames are binary around text: what is no text is shown as such.
        let shown: String = match wire {
            WireKind::Bedrock => body.escape_ascii().to_string().replace("\\\"", "\""),
            _ => String::from_utf8(body).unwrap(),
        };
        insta::assert_snapshot!(format!("{wire:?}"), shown);
    }
    let requests = provider.requests();
    assert_eq!(requests[1].query.as_deref(), Some("alt=sse"));
}

#[tokio::test]
async fn every_event_is_json() {
    let provider = FakeProvider::answering(|_| reply()).await;
    for path in ["/v1/chat/completions", "/v1/messages", PATHS[0].1, PATHS[1].1] {
        let body = unchunk(&fetch(&provider, "POST", path, "{}").await);
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        for data in data.filter(|data| *data != "[DONE]") {
            serde_json::from_str::<Value>(data).unwrap();
        }
    }
}

#[tokio::test]
async fn failures_have_the_vendors_status_and_body() {
    let provider =
        FakeProvider::answering(|_| Reply::failure(Failure::Overloaded).header("retry-after", "3"))
            .await;
    let openai = fetch(&provider, "POST", "/v1/chat/completions", "{}").await;
    assert!(openai.starts_with("HTTP/1.1 503 ") && openai.contains("retry-after: 3"), "{openai}");
    let anthropic = fetch(&provider, "POST", "/v1/messages", "{}").await;
    assert!(
        anthropic.starts_with("HTTP/1.1 529 ") && anthropic.contains("overloaded_error"),
        "{anthropic}"
    );
}

#[tokio::test]
async fn what_is_not_scripted_is_refused() {
    let provider = FakeProvider::start().await;
    assert!(fetch(&provider, "POST", "/v1/messages", "{}").await.contains("no reply left"));
    assert!(fetch(&provider, "POST", "/v2/other", "{}").await.starts_with("HTTP/1.1 404 "));
    assert!(fetch(&provider, "GET", "/v1/models", "").await.contains("\"id\":\"fake-1\""));
}

#[tokio::test]
async fn connections_break_where_the_script_says() {
    let provider = FakeProvider::start().await;
    provider.replies([
        Reply::reset(),
        Reply::text("half").drop_connection(),
        Reply::text("half").omit_final_frame(),
    ]);
    assert_eq!(fetch(&provider, "POST", "/v1/messages", "{}").await, "");
    let cut = fetch(&provider, "POST", "/v1/messages", "{}").await;
    assert!(cut.contains("half") && !cut.ends_with("0\r\n\r\n"), "{cut}");
    let early = fetch(&provider, "POST", "/v1/messages", "{}").await;
    assert!(early.ends_with("0\r\n\r\n") && !early.contains("message_stop"), "{early}");
}

#[tokio::test]
async fn an_answer_nobody_reads_is_counted() {
    let provider = FakeProvider::start().await;
    provider.reply(Reply::text("half").hang_midway());
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let request = "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    provider.wait_for_requests(1).await;
    drop(stream);
    provider.wait_for_abandoned(1).await;
}
