//! Requests over connections that stay open.

use std::time::Duration;

use provost_server::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::tcp_server::{TcpServer, head, reply};

const TASKS: &str = "/v1/namespaces/default/tasks";

fn request(line: &str, headers: &str, body: &str) -> String {
    let length =
        if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
    format!("{line} HTTP/1.1\r\nhost: here\r\n{headers}{length}\r\n{body}")
}

/// Reads one response of a connection that stays open: its sorted header lines and its body.
async fn answer(stream: &mut TcpStream) -> (Vec<String>, String) {
    let head = head(stream).await;
    let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
    lines.sort();
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    (lines, String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn many_requests_over_one_connection_are_answered_in_turn() {
    let tcp_server = TcpServer::start().await;
    let token = format!("authorization: Bearer {}\r\n", tcp_server.admin);
    let json = format!("{token}content-type: application/json\r\n");
    let mut plain = tcp_server.connect().await;
    for (line, headers, body, status) in [
        ("GET /healthz", "", "", "200 OK"),
        ("GET /openapi.json", "", "", "200 OK"),
        ("GET /docs", "", "", "200 OK"),
        ("GET /nowhere", "", "", "404 Not Found"),
        ("POST /healthz", "", "", "405 Method Not Allowed"),
        ("GET /v1/whoami", "", "", "401 Unauthorized"),
        ("GET /v1/whoami", token.as_str(), "", "200 OK"),
        ("GET /v1/namespaces/nobody!/tasks", token.as_str(), "", "404 Not Found"),
        ("GET /v1/namespaces/default/agents/default", token.as_str(), "", "200 OK"),
        ("DELETE /v1/namespaces/default/agents/absent", token.as_str(), "", "404 Not Found"),
        (&format!("POST {TASKS}"), json.as_str(), r#"{"message":"hi"}"#, "201 Created"),
        (&format!("POST {TASKS}"), json.as_str(), r#"{"message":7}"#, "400 Bad Request"),
        (&format!("POST {TASKS}"), json.as_str(), r#"{"message":"hi""#, "4"),
        (&format!("POST {TASKS}"), json.as_str(), r#"{"message":"hi","other":1}"#, "4"),
        (&format!("POST {TASKS}?a=b"), json.as_str(), r#"{"message":"hi"}"#, "4"),
        (&format!("POST {TASKS}"), token.as_str(), r#"{"message":"hi"}"#, "415"),
        (&format!("GET /healthz?{}", "x".repeat(7000)), "", "", "4"),
    ] {
        plain.write_all(request(line, headers, body).as_bytes()).await.unwrap();
        let (lines, _) = answer(&mut plain).await;
        let head = format!("HTTP/1.1 {status}");
        assert!(lines.iter().any(|text| text.starts_with(&head)), "{line}: {lines:?}");
        let always = ["x-request-id: ", "date: ", "x-content-type-options: nosniff"];
        for header in always {
            assert_eq!(lines.iter().filter(|text| text.starts_with(header)).count(), 1, "{line}");
        }
    }
    let known = format!("{token}if-none-match: *\r\n");
    let asked = request("GET /v1/namespaces/default/agents/default", &known, "");
    plain.write_all(asked.as_bytes()).await.unwrap();
    let (lines, _) = answer(&mut plain).await;
    assert!(lines.iter().any(|line| line.starts_with("HTTP/1.1 304")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("content-length")), "{lines:?}");
}

#[tokio::test]
async fn a_connection_goes_on_whatever_comes_over_it() {
    let tcp_server = TcpServer::start().await;
    let mut stream = tcp_server.connect().await;
    let token = format!("authorization: Bearer {}\r\n", tcp_server.admin);
    let whoami = request("GET /v1/whoami", &token, "");
    // Two at once and half of a third, in the middle of a word.
    let (start, end) = whoami.split_at(whoami.len() / 2);
    stream.write_all(format!("{whoami}{whoami}{start}").as_bytes()).await.unwrap();
    for _ in 0..2 {
        assert!(answer(&mut stream).await.1.contains("admin"));
    }
    stream.write_all(end.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.1.contains("admin"));
    stream.write_all(whoami.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.1.contains("admin"));
    let watch = request("GET /v1/namespaces/default/stream", &token, "");
    stream.write_all(watch.as_bytes()).await.unwrap();
    assert!(head(&mut stream).await.contains("text/event-stream"));
}

#[tokio::test]
async fn a_body_behind_its_head_and_one_in_chunks_are_taken() {
    let tcp_server = TcpServer::start().await;
    let headers =
        format!("authorization: Bearer {}\r\ncontent-type: application/json\r\n", tcp_server.admin);
    let whole = request(&format!("POST {TASKS}"), &headers, r#"{"message":"hi"}"#);
    let (start, body) = whole.split_at(whole.find('{').unwrap());
    let mut stream = tcp_server.connect().await;
    stream.write_all(start.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    stream.write_all(body.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.1.contains("task_"));
    let mut stream = tcp_server.connect().await;
    let chunked = format!("{headers}transfer-encoding: chunked\r\n");
    let start = request(&format!("POST {TASKS}"), &chunked, "");
    stream
        .write_all(format!("{start}10\r\n{{\"message\":\"hi\"}}\r\n0\r\n\r\n").as_bytes())
        .await
        .unwrap();
    assert!(answer(&mut stream).await.1.contains("task_"));
}

#[tokio::test]
async fn a_slow_head_is_given_up_on_a_connection_that_was_idle() {
    let quick = Duration::from_millis(50);
    let limits = Limits { head_timeout: quick, ..Limits::default() };
    let tcp_server = TcpServer::with(limits).await;
    let mut stream = tcp_server.connect().await;
    stream.write_all(request("GET /healthz", "", "").as_bytes()).await.unwrap();
    answer(&mut stream).await;
    // An idle connection has more time than the head of a request.
    tokio::time::sleep(2 * quick).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
    assert_eq!(reply(&mut stream).await.status, 408);
}
