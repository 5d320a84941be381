//! Servers that hang, flood, lie and break off.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use provost_core::ErrorKind;
use provost_net::{NetClient, NetError, NetOptions, NetPolicy, NetRequest, Resolver, Url};
use tokio::net::{TcpSocket, TcpStream};

use crate::peer::{LOCAL, Server, TEST_TIMEOUT, get, local, ok, soon};

const DEADLINE: Duration = Duration::from_millis(300);
/// What a busy machine may add.
const GRACE: Duration = Duration::from_secs(2);

/// Asks with a short deadline and reads the body; whatever goes wrong, it is over in time.
async fn ask(url: Url, max: usize) -> Result<bytes::Bytes, NetError> {
    let began = Instant::now();
    let client = local();
    let got = async { client.send(NetRequest::get(url, began + DEADLINE)).await?.bytes(max).await };
    let got = got.await;
    assert!(began.elapsed() < DEADLINE + GRACE, "{:?}", began.elapsed());
    got
}

#[track_caller]
fn is_timeout(error: &NetError, sent: bool) {
    assert!(matches!(error, NetError::Timeout { .. }), "{error:?}");
    assert_eq!((error.kind(), error.may_have_arrived()), (ErrorKind::Timeout, sent));
    assert!(error.retryable());
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_at_the_deadline() {
    let server = Server::start(async |mut peer| peer.wait_until_closed().await).await;
    is_timeout(&ask(server.url("/"), 10).await.unwrap_err(), true);
}

#[tokio::test]
async fn a_slow_head_is_left_at_the_deadline() {
    let server = Server::start(async |mut peer| {
        peer.head().await;
        while peer.write("HTTP/1.1 100 Continue\r\n\r\n").await {
            tokio::task::yield_now().await;
        }
    })
    .await;
    is_timeout(&ask(server.url("/"), 10).await.unwrap_err(), true);
}

#[tokio::test]
async fn a_slow_body_is_left_at_the_deadline() {
    let server = Server::start(async |mut peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc").await;
        peer.wait_until_closed().await;
    })
    .await;
    is_timeout(&ask(server.url("/"), 10_000).await.unwrap_err(), true);
}

#[tokio::test]
async fn an_endless_body_ends_at_the_cap_or_at_the_deadline() {
    let server = Server::start(async |mut peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\n\r\n").await;
        while peer.write(vec![b'x'; 8192]).await {}
    })
    .await;
    let error = ask(server.url("/"), 100_000).await.unwrap_err();
    assert!(matches!(error, NetError::TooLarge { max: 100_000 }), "{error:?}");
    assert_eq!((error.kind(), error.retryable()), (ErrorKind::Exhausted, false));
    is_timeout(&ask(server.url("/"), usize::MAX).await.unwrap_err(), true);
    let response = local().send(get(server.url("/"))).await.unwrap();
    let (prefix, cut) = response.prefix(5000).await.unwrap();
    assert!(cut && prefix.len() == 5000);
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_not_read() {
    let server = Server::start(async |mut peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n").await;
        peer.wait_until_closed().await;
    })
    .await;
    let began = Instant::now();
    let response = local().send(get(server.url("/"))).await.unwrap();
    assert!(matches!(response.bytes(1 << 20).await, Err(NetError::TooLarge { .. })));
    assert!(began.elapsed() < TEST_TIMEOUT / 2);
}

/// A megabyte of nothing, packed.
fn nothing() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 1 << 20]).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_bomb_counts_as_what_it_becomes() {
    let packed = nothing();
    assert!(packed.len() < 2000, "{}", packed.len());
    let server = Server::start(move |mut peer| {
        let packed = packed.clone();
        async move {
            peer.head().await;
            peer.write("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await;
            while peer.write(&packed).await {}
        }
    })
    .await;
    let error = ask(server.url("/"), 10 << 20).await.unwrap_err();
    assert!(matches!(error, NetError::TooLarge { .. }), "{error:?}");
    // Without a cap time ends it: unpacking never holds up the clock.
    is_timeout(&ask(server.url("/"), usize::MAX).await.unwrap_err(), true);
    let response = local().send(get(server.url("/"))).await.unwrap();
    let stream = response.stream();
    futures::pin_mut!(stream);
    let piece = stream.try_next().await.unwrap().unwrap();
    assert!(piece.len() <= provost_net::limits::UNPACK_BYTES);
}

#[tokio::test]
async fn what_is_packed_is_unpacked() {
    let packed = nothing();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        packed.len()
    );
    let server = Server::answering([head.as_bytes(), &packed].concat()).await;
    let client = local();
    for _ in 0..2 {
        let response = client.send(get(server.url("/"))).await.unwrap();
        assert!(!response.headers.contains_key("content-encoding"));
        assert!(!response.headers.contains_key("content-length"));
        assert_eq!(response.bytes(1 << 20).await.unwrap(), vec![0; 1 << 20]);
    }
    assert_eq!(server.accepted(), 1, "the connection is used again");
    let response = client.send(get(server.url("/"))).await.unwrap();
    assert!(matches!(response.bytes((1 << 20) - 1).await, Err(NetError::TooLarge { .. })));
}

#[tokio::test]
async fn garbage_is_malformed() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101));
    let garbage = [
        "SSH-2.0-OpenSSH_9.6\r\n\r\n",
        "HTTP/1.1 200\r\ncontent-length: nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        "HTTP/9.9 200 OK\r\n\r\n",
        "\0\0\0\0\0\0\0\0\0",
        "HTTP/1.1 99999 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad header line\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip, gzip\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        &long,
        &many,
    ];
    for answer in garbage {
        let server = Server::answering(answer).await;
        let error = ask(server.url("/"), 1000).await.unwrap_err();
        let shown = &answer[..answer.len().min(60)];
        assert!(matches!(error, NetError::Malformed { .. }), "{shown:?}: {error:?}");
        assert_eq!(
            (error.kind(), error.may_have_arrived()),
            (ErrorKind::Malformed, true),
            "{shown:?}"
        );
    }
}

#[tokio::test]
async fn a_flood_of_headers_is_cut_off() {
    let server = Server::start(async |mut peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\n").await;
        while peer.write("x-flood: and another one and another one\r\n".repeat(100)).await {}
    })
    .await;
    let error = ask(server.url("/"), 1000).await.unwrap_err();
    assert!(matches!(error, NetError::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_line_that_breaks_is_closed() {
    let broken = [
        "",
        "HTTP/1.1 200 OK\r\ncontent-le",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
    ];
    for answer in broken {
        let server = Server::start(move |mut peer| async move {
            peer.head().await;
            peer.write(answer).await;
        })
        .await;
        let error = ask(server.url("/"), 1000).await.unwrap_err();
        assert!(matches!(error, NetError::Closed { .. }), "{answer:?}: {error:?}");
        assert!(error.may_have_arrived() && error.retryable(), "{answer:?}");
    }
}

#[tokio::test]
async fn nobody_there_is_no_connection() {
    let server = Server::answering(ok("")).await;
    let url = server.url("/");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut nobody = url.clone();
    nobody.set_port(Some(free.local_addr().unwrap().port())).unwrap();
    drop(free);
    let error = ask(nobody, 10).await.unwrap_err();
    assert!(matches!(error, NetError::Connect { .. }), "{error:?}");
    assert!(!error.may_have_arrived() && error.retryable());
}

#[tokio::test]
async fn a_connect_that_hangs_is_left_at_the_deadline() {
    // A full backlog: the system drops what comes next.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        held.push(stream);
    }
    let url = Url::parse(&format!("http://{address}/")).unwrap();
    is_timeout(&ask(url, 10).await.unwrap_err(), false);
}

struct Silent;

impl Resolver for Silent {
    fn resolve(&self, _: &str, _: u16) -> BoxFuture<'_, std::io::Result<Vec<SocketAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_lookup_that_hangs_is_left_at_the_deadline() {
    let client = NetClient::with_resolver(LOCAL, Arc::new(Silent));
    let url = Url::parse("http://silent.test/").unwrap();
    let error = client.send(NetRequest::get(url, soon(DEADLINE))).await.unwrap_err();
    is_timeout(&error, false);
    assert_eq!(client.connections(), 0);
}

#[tokio::test]
async fn a_handshake_that_hangs_or_fails_sends_nothing() {
    let hanging = Server::start(async |mut peer| peer.wait_until_closed().await).await;
    let policy = NetPolicy { allow_loopback: true, ..NetPolicy::default() };
    let client = NetClient::new(policy);
    let secure = |server: &Server| Url::parse(&format!("https://{}/", server.address)).unwrap();
    let error = client.send(NetRequest::get(secure(&hanging), soon(DEADLINE))).await.unwrap_err();
    is_timeout(&error, false);
    let garbage = Server::start(async |mut peer| {
        peer.write("SSH-2.0-OpenSSH_9.6\r\n").await;
        peer.wait_until_closed().await;
    })
    .await;
    let error = client.send(get(secure(&garbage))).await.unwrap_err();
    assert!(matches!(error, NetError::Tls { .. }), "{error:?}");
    assert!(!error.may_have_arrived() && !error.retryable());
    // The client's own patience ends before the deadline does.
    let options = NetOptions { connect_timeout: DEADLINE, ..NetOptions::new(policy) };
    let error = NetClient::open(options).send(get(secure(&hanging))).await.unwrap_err();
    is_timeout(&error, false);
}

#[tokio::test]
async fn a_deadline_that_passed_sends_nothing() {
    let server = Server::answering(ok("")).await;
    let client = local();
    client.send(get(server.url("/"))).await.unwrap().bytes(0).await.unwrap();
    let late = NetRequest::get(server.url("/"), Instant::now());
    is_timeout(&client.send(late).await.unwrap_err(), false);
}
