//! Connections: shared by requests, never by policies; TLS and both versions of HTTP.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use provost_net::{
    NetClient, NetError, NetOptions, NetPolicy, NetRequest, StaticResolver, Url, tls_config_with,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use crate::peer::{LOCAL, Server, TEST_TIMEOUT, get, local, ok, soon, with_names};

#[tokio::test]
async fn requests_share_a_connection_and_policies_do_not() {
    let server = Server::answering(ok("hello")).await;
    let ask = async |client: &NetClient| {
        let answer = client.send(get(server.url("/"))).await.unwrap();
        assert_eq!(answer.bytes(5).await.unwrap(), "hello");
    };
    let first = local();
    for _ in 0..3 {
        ask(&first).await;
        ask(&first.clone()).await;
    }
    assert_eq!((server.accepted(), first.connections()), (1, 1));
    ask(&local()).await;
    assert_eq!(server.accepted(), 2);
    let strict = NetClient::new(NetPolicy { plain_http: true, ..NetPolicy::default() });
    let refused = strict.send(get(server.url("/"))).await.unwrap_err();
    assert!(matches!(refused, NetError::Refused { .. }), "{refused:?}");
    assert_eq!((server.accepted(), strict.connections()), (2, 0));
}

#[tokio::test]
async fn a_name_with_a_dot_at_its_end_is_the_same_host() {
    let server = Server::answering(ok("hello")).await;
    let (client, names) = with_names(LOCAL, StaticResolver::new().name("a.test", [server.address]));
    for url in ["http://a.test/", "http://a.test./", "http://A.TEST/"] {
        let answer = client.send(get(Url::parse(url).unwrap())).await.unwrap();
        answer.bytes(5).await.unwrap();
    }
    assert_eq!((server.accepted(), names.queries("a.test")), (1, 1));
}

#[tokio::test]
async fn the_next_address_is_tried() {
    let server = Server::answering(ok("hello")).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let names = StaticResolver::new().name("two.test", [nobody, server.address]);
    let (client, _) = with_names(LOCAL, names);
    let answer = client.send(get(Url::parse("http://two.test/").unwrap())).await.unwrap();
    assert_eq!(answer.bytes(5).await.unwrap(), "hello");
}

/// A server with a certificate of its own for `secure.test`, and the file that makes it trusted.
async fn secure(protocols: &[&str], folder: &Path) -> (Server, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(["secure.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let der = made.cert.der().clone();
    let path = folder.join("root.pem");
    std::fs::write(&path, pem(&der)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start(move |peer| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(peer.stream).await else { return };
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let hello = service_fn(async |request: http::Request<Incoming>| {
                if request.uri().path() == "/hang" {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"hello"))))
            });
            let io = TokioIo::new(stream);
            if h2 {
                let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                served.serve_connection(io, hello).await.ok();
            } else {
                hyper::server::conn::http1::Builder::new().serve_connection(io, hello).await.ok();
            }
        }
    })
    .await;
    (server, path)
}

fn pem(der: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for (n, three) in der.chunks(3).enumerate() {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > three.len() { '=' } else { char::from(letter) });
        }
        if n % 16 == 15 {
            text.push('\n');
        }
    }
    text + "\n-----END CERTIFICATE-----\n"
}

fn trusting(root: Option<&Path>, server: &Server, name: &str) -> NetClient {
    let policy = NetPolicy { allow_loopback: true, ..NetPolicy::default() };
    let names = StaticResolver::new().name(name, [server.address]);
    NetClient::open(NetOptions {
        resolver: Arc::new(names),
        tls: Some(Arc::new(tls_config_with(root).unwrap())),
        ..NetOptions::new(policy)
    })
}

#[tokio::test]
async fn both_versions_are_spoken_as_the_server_likes() {
    let folder = tempfile::tempdir().unwrap();
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"][..], Version::HTTP_11),
        (&[][..], Version::HTTP_11),
    ] {
        let (server, root) = secure(protocols, folder.path()).await;
        let client = trusting(Some(&root), &server, "secure.test");
        let url = Url::parse("https://secure.test/").unwrap();
        for _ in 0..3 {
            let answer = client.send(get(url.clone())).await.unwrap();
            assert_eq!(answer.version, version);
            assert_eq!(answer.bytes(5).await.unwrap(), "hello");
        }
        assert_eq!(server.accepted(), 1);
        if version == Version::HTTP_2 {
            let all = (0..20).map(|_| client.send(get(url.clone())));
            let all = futures::future::try_join_all(all).await.unwrap();
            assert_eq!((all.len(), server.accepted()), (20, 1), "one connection carries all");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_given_up_leaves_a_shared_connection_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (server, root) = secure(&["h2"], folder.path()).await;
    let client = trusting(Some(&root), &server, "secure.test");
    let url = |path: &str| Url::parse(&format!("https://secure.test{path}")).unwrap();
    client.send(get(url("/"))).await.unwrap();
    let hanging = NetRequest::get(url("/hang"), soon(Duration::from_millis(200)));
    let error = client.send(hanging).await.unwrap_err();
    assert!(matches!(error, NetError::Timeout { sent: true }), "{error:?}");
    client.send(get(url("/"))).await.unwrap();
    assert_eq!((server.accepted(), client.connections()), (1, 1));
}

#[tokio::test]
async fn who_is_not_trusted_gets_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let (server, root) = secure(&["h2"], folder.path()).await;
    for (client, url) in [
        (trusting(None, &server, "secure.test"), "https://secure.test/"),
        (trusting(Some(&root), &server, "other.test"), "https://other.test/"),
    ] {
        let request = NetRequest::post(url.parse().unwrap(), "secret", soon(TEST_TIMEOUT));
        let error = client.send(request).await.unwrap_err();
        assert!(matches!(error, NetError::Tls { .. }), "{error:?}");
        assert!(!error.may_have_arrived() && !error.retryable());
    }
}
