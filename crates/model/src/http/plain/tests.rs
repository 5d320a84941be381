use std::ffi::OsString;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn listen() -> (TcpListener, Plain) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/chat", listener.local_addr().unwrap());
    let connect = Timeouts::default().connect;
    let plain = Plain::new(&Url::parse(&url).unwrap(), connect, &mut HeaderMap::new()).unwrap();
    (listener, plain)
}

/// Reads one request without a body from a connection.
async fn heard(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn ask(plain: &Plain) -> Result<Answer, Broken> {
    plain.clone().ask(HeaderMap::new(), Bytes::new()).await
}

async fn read(mut answer: Answer) -> Result<Vec<u8>, Broken> {
    let mut whole = Vec::new();
    while let Some(bytes) = poll_fn(|cx| answer.body.poll_bytes(cx)).await {
        whole.extend_from_slice(&bytes?);
    }
    Ok(whole)
}

fn resting(plain: &Plain) -> usize {
    plain.lines.lock().lines.len()
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_is_read() {
    let (listener, plain) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            let head = heard(&mut stream).await;
            assert!(head.starts_with("POST /v1/chat HTTP/1.1\r\n"), "{head}");
            stream.write_all(ANSWER).await.unwrap();
        }
        stream
    });
    for _ in 0..3 {
        let answer = ask(&plain).await.unwrap();
        assert_eq!(resting(&plain), 0);
        assert_eq!(read(answer).await.unwrap(), b"ok");
        assert_eq!(resting(&plain), 1);
    }
    server.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_its_server_closed_meanwhile_is_not_used() {
    let (listener, plain) = listen().await;
    for _ in 0..3 {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            heard(&mut stream).await;
            stream.write_all(ANSWER).await.unwrap();
            stream
        };
        let (answer, stream) = tokio::join!(ask(&plain), serve);
        assert_eq!(read(answer.unwrap()).await.unwrap(), b"ok");
        assert_eq!(resting(&plain), 1);
        drop(stream);
        // What was closed before this word came is known once it came.
        let (_mine, _theirs) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    }
}

#[tokio::test]
async fn an_answer_that_is_not_wanted_closes_its_connection() {
    let (listener, plain) = listen().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        heard(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await.unwrap();
        stream
    };
    let (answer, mut stream) = tokio::join!(ask(&plain), serve);
    drop(answer.unwrap());
    assert_eq!(resting(&plain), 0);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is closed");
}

#[tokio::test]
async fn a_body_that_is_cut_is_an_error() {
    let (listener, plain) = listen().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        heard(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok").await.unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&plain), serve);
    let broken = read(answer.unwrap()).await.unwrap_err();
    assert!(!broken.is_connect() && !broken.is_timeout(), "{broken:?}");
    assert_eq!(resting(&plain), 0);
}

#[tokio::test]
async fn whoever_reads_now_is_woken_also_if_somebody_else_did_before() {
    let (listener, plain) = listen().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        heard(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n";
        stream.write_all(head).await.unwrap();
        stream
    };
    let (answer, mut stream) = tokio::join!(ask(&plain), serve);
    let mut body = answer.unwrap().body;
    assert_eq!(poll_fn(|cx| body.poll_bytes(cx)).await.unwrap().unwrap(), "a");
    // This task waits once, and then another one does.
    assert!(futures::poll!(poll_fn(|cx| body.poll_bytes(cx))).is_pending());
    let reader = tokio::spawn(async move {
        let next = poll_fn(|cx| body.poll_bytes(cx)).await.unwrap().unwrap();
        (next, poll_fn(|cx| body.poll_bytes(cx)).await.is_none())
    });
    tokio::task::yield_now().await;
    stream.write_all(b"1\r\nb\r\n0\r\n\r\n").await.unwrap();
    let (next, ended) = reader.await.unwrap();
    assert_eq!((&next[..], ended), (&b"b"[..], true));
    assert_eq!(resting(&plain), 1);
}

#[tokio::test]
async fn what_nobody_uses_is_closed_after_a_while() {
    let (listener, plain) = listen().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        heard(&mut stream).await;
        stream.write_all(ANSWER).await.unwrap();
        stream
    };
    let (answer, mut stream) = tokio::join!(ask(&plain), serve);
    read(answer.unwrap()).await.unwrap();
    tokio::time::pause();
    tokio::task::yield_now().await;
    tokio::time::advance(IDLE_TIMEOUT / 2).await;
    assert_eq!(resting(&plain), 1);
    tokio::time::advance(IDLE_TIMEOUT).await;
    tokio::time::resume();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is closed");
    assert_eq!(resting(&plain), 0);
    assert!(!plain.lines.lock().is_watched);
}

#[test]
fn connections_end_with_their_runtime_and_serve_no_other() {
    let serving = runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (listener, plain) = serving.block_on(listen());
    serving.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                loop {
                    heard(&mut stream).await;
                    stream.write_all(ANSWER).await.unwrap();
                }
            });
        }
    });
    let asking = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (asking(), asking());
    let once = async || read(ask(&plain).await.unwrap()).await.unwrap();
    assert_eq!(first.block_on(once()), b"ok");
    assert_eq!(second.block_on(once()), b"ok");
    assert_eq!(resting(&plain), 2, "each has one of its own");
    drop(first);
    assert_eq!(resting(&plain), 1);
    assert_eq!(second.block_on(once()), b"ok");
    assert_eq!(resting(&plain), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_went() {
    let (listener, plain) = listen().await;
    drop(listener);
    let broken = ask(&plain).await.err().unwrap();
    assert!(broken.is_connect() && !broken.is_timeout(), "{broken:?}");
}

#[test]
fn a_proxy_is_left_to_the_client_that_knows_proxies() {
    let set = |name: &'static str, value: &'static str| {
        move |asked: &str| (asked == name).then(|| OsString::from(value))
    };
    assert!(!is_proxied(|_| None));
    assert!(is_proxied(set("http_proxy", "http://proxy:3128")));
    assert!(is_proxied(set("ALL_PROXY", "socks5://proxy:1080")));
    assert!(!is_proxied(set("HTTP_PROXY", "")));
    assert!(!is_proxied(set("HTTPS_PROXY", "http://proxy:3128")));
}
