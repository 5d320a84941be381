//! Limits of bytes, requests, time and connections.

use std::time::Duration;

use provost_server::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::tcp_server::{TcpServer, head, reply};

const TASKS: &str = "/v1/namespaces/default/tasks";

fn quick() -> Duration {
    Duration::from_millis(50)
}

#[tokio::test]
async fn a_slow_head_is_given_up() {
    let tcp_server = TcpServer::with(Limits { head_timeout: quick(), ..Limits::default() }).await;
    let mut silent = tcp_server.connect().await;
    let mut begun = tcp_server.connect().await;
    begun.write_all(b"GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
    assert_eq!(reply(&mut begun).await.status, 408);
    assert_eq!(reply(&mut silent).await.status, 408);
    assert_eq!(tcp_server.call_without_token("GET /healthz", "").await.status, 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let tcp_server = TcpServer::with(Limits { idle_timeout: quick(), ..Limits::default() }).await;
    let mut stream = tcp_server.connect().await;
    for _ in 0..2 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200"));
        let mut body = [0; 11];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"{\"ok\":true}");
    }
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "closed without a word");
}

#[tokio::test]
async fn a_slow_body_is_given_up() {
    let tcp_server =
        TcpServer::with(Limits { body_stall_timeout: quick(), ..Limits::default() }).await;
    let mut stream = tcp_server.connect().await;
    let start = format!(
        "POST {TASKS} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        tcp_server.admin
    );
    stream.write_all(start.as_bytes()).await.unwrap();
    let reply = reply(&mut stream).await;
    assert_eq!((reply.status, reply.code().as_str()), (408, "body_timeout"));
}

#[tokio::test]
async fn a_huge_body_is_refused_before_it_is_read() {
    let tcp_server = TcpServer::start().await;
    // Whether its length is said or found out.
    let said = format!("content-length: {}\r\nexpect: 100-continue\r\n", 1_u64 << 40);
    for (path, length) in [(TASKS, said.as_str()), ("/v1/tokens", "content-length: 2000000\r\n")] {
        let mut stream = tcp_server.connect().await;
        let start = format!(
            "POST {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n{length}\
             authorization: Bearer {}\r\ncontent-type: application/json\r\n\r\n",
            tcp_server.admin
        );
        stream.write_all(start.as_bytes()).await.unwrap();
        let reply = reply(&mut stream).await;
        assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"), "{path}");
    }
    // Without a token nobody's body is read at all.
    let reply = tcp_server.call_without_token(&format!("POST {TASKS}"), &said).await;
    assert_eq!(reply.status, 401);
}

#[tokio::test]
async fn a_body_in_chunks_is_counted() {
    let tcp_server = TcpServer::start().await;
    let mut stream = tcp_server.connect().await;
    let start = format!(
        "POST /v1/tokens HTTP/1.1\r\nhost: here\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\
         authorization: Bearer {}\r\ncontent-type: application/json\r\n\r\n",
        tcp_server.admin
    );
    stream.write_all(start.as_bytes()).await.unwrap();
    let (mut from, mut to) = stream.split();
    let send = async {
        let chunk = format!("{:x}\r\n{}\r\n", 65_536, "x".repeat(65_536));
        // It stops listening at some point: an error is what is wanted here.
        for _ in 0..1_000 {
            if to.write_all(chunk.as_bytes()).await.is_err() {
                return;
            }
        }
        panic!("65 MB were taken in");
    };
    let read = async {
        let mut start = [0; 12];
        from.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 413");
        std::future::pending::<()>().await
    };
    tokio::select! { () = send => {}, () = read => {} }
}

#[tokio::test]
async fn heads_and_targets_have_their_limits() {
    let tcp_server = TcpServer::start().await;
    let long = format!("GET /healthz?{}", "x".repeat(9_000));
    let reply = tcp_server.call_without_token(&long, "").await;
    assert_eq!((reply.status, reply.code().as_str()), (414, "uri_too_long"));
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    assert_eq!(tcp_server.call_without_token("GET /healthz", &many).await.status, 431);
    // No more than is read: what is left unread would reset the connection and the answer with it.
    let mut large = b"GET /healthz HTTP/1.1\r\nx: ".to_vec();
    large.resize(Limits::default().head_bytes_max, b'y');
    assert_eq!(tcp_server.raw(&large).await.status, 431);
}

#[tokio::test]
async fn broken_requests_and_injected_headers_are_refused() {
    let tcp_server = TcpServer::start().await;
    for request in [
        "GET /healthz HTTP/1.1\r\nx: a\0b\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nx y: z\r\n\r\n",
        "GET  HTTP/1.1\r\n\r\n",
        "POST /v1/tokens HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "POST /v1/tokens HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        "\u{16}\u{3}\u{1}\u{2}\r\n\r\n",
    ] {
        let reply = tcp_server.raw(request.as_bytes()).await;
        assert_eq!(reply.status, 400, "{request:?}");
    }
    // What a caller says comes back as data or not at all.
    let reply = tcp_server
        .call_without_token("GET /%0d%0aset-cookie:%20a=b", "x-request-id: a b\r\n")
        .await;
    assert_eq!((reply.status, reply.header("set-cookie")), (404, None));
    assert!(reply.header("x-request-id").unwrap().starts_with("req_"));
    let path = "GET /v1/namespaces/default/tasks/%0d%0ax:%20y";
    let reply = tcp_server.call(path, &tcp_server.admin, None).await;
    assert_eq!((reply.status, reply.header("x")), (404, None));
    for path in
        ["/v1/../healthz", "//healthz", "/healthz/", "/v1/namespaces/../../healthz", "/%2fhealthz"]
    {
        assert_eq!(
            tcp_server.call(&format!("GET {path}"), &tcp_server.admin, None).await.status,
            404,
            "{path}"
        );
    }
}

#[tokio::test]
async fn requests_are_counted_for_each_token() {
    let limits = Limits { rate_per_second: 1, rate_burst: 3, ..Limits::default() };
    let tcp_server = TcpServer::with(limits).await;
    let mut left = Vec::new();
    for _ in 0..3 {
        let reply = tcp_server.call("GET /v1/version", &tcp_server.admin, None).await;
        assert_eq!((reply.status, reply.header("ratelimit-limit")), (200, Some("3")));
        left.push(reply.header("ratelimit-remaining").unwrap().to_owned());
    }
    assert_eq!(left, ["2", "1", "0"]);
    let refused = tcp_server.call("GET /v1/version", &tcp_server.admin, None).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limited"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("ratelimit-remaining"), Some("0"));
    // Requests without a valid token are counted by address.
    let unknown = format!("{}x", tcp_server.admin);
    let refused = tcp_server.call("GET /v1/version", &unknown, None).await;
    assert_eq!(refused.status, 401);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(tcp_server.call_without_token("GET /healthz", "").await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn connections_beyond_the_limit_hear_so() {
    let tcp_server = TcpServer::with(Limits { connections_max: 2, ..Limits::default() }).await;
    let mut first = tcp_server.connect().await;
    let second = tcp_server.connect().await;
    first.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
    assert!(head(&mut first).await.starts_with("HTTP/1.1 200"));
    let refused = tcp_server.call_without_token("GET /healthz", "").await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "connections"));
    drop((first, second));
    // A seat is free as soon as the server has seen one of them go.
    loop {
        if tcp_server.call_without_token("GET /healthz", "").await.status == 200 {
            break;
        }
    }
}

#[tokio::test]
async fn two_thousand_idle_connections_do_not_matter() {
    let limits = Limits { rate_per_second: 0, ..Limits::default() };
    let tcp_server = TcpServer::with(limits).await;
    let mut idle = Vec::new();
    for _ in 0..2_000 {
        let mut stream = tcp_server.connect().await;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.unwrap();
        assert!(head(&mut stream).await.starts_with("HTTP/1.1 200"));
        idle.push(stream);
    }
    let task = json!({"message": "hi"});
    let reply = tcp_server.call(&format!("POST {TASKS}"), &tcp_server.admin, Some(&task)).await;
    assert_eq!(reply.status, 201);
    let numbers = tcp_server.call("GET /metrics", &tcp_server.admin, None).await;
    assert!(numbers.body.contains("provost_connections 2001\n"), "the idle ones and this one");
    tcp_server.stop().await;
    for mut stream in idle {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
    }
}
