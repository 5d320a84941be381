//! Nothing is left behind by those who go.

use std::future::Future;
use std::time::Duration;

use provost_net::NetClient;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::peer::{Peer, Server, TEST_TIMEOUT, get, local};

/// Waits until something holds; the test fails if it never does.
async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, waiting).await.unwrap();
}

/// A server that tells when a connection begins to be served and when its other side went.
async fn watched<F, Fut>(serve: F) -> (Server, mpsc::UnboundedReceiver<&'static str>)
where
    F: Fn(Peer) -> Fut + Send + Sync + Clone + 'static,
    Fut: Future<Output = Peer> + Send + 'static,
{
    let (tell, told) = mpsc::unbounded_channel();
    let server = Server::start(move |peer| {
        let (tell, serve) = (tell.clone(), serve.clone());
        async move {
            let mut peer = serve(peer).await;
            tell.send("served").unwrap();
            peer.wait_until_closed().await;
            tell.send("gone").unwrap();
        }
    })
    .await;
    (server, told)
}

async fn leaves_nothing(
    client: &NetClient,
    tasks_before: usize,
    told: &mut mpsc::UnboundedReceiver<&'static str>,
) {
    assert_eq!(timeout(TEST_TIMEOUT, told.recv()).await.unwrap(), Some("gone"));
    until(|| client.connections() == 0).await;
    until(|| Handle::current().metrics().num_alive_tasks() <= tasks_before).await;
}

#[tokio::test]
async fn a_request_that_is_dropped_closes_its_connection() {
    let (server, mut told) = watched(async |mut peer: Peer| {
        peer.head().await;
        peer
    })
    .await;
    let client = local();
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut sending = Box::pin(client.send(get(server.url("/"))));
    tokio::select! {
        answer = &mut sending => panic!("{answer:?}"),
        served = told.recv() => assert_eq!(served, Some("served")),
    }
    assert_eq!(client.connections(), 1);
    drop(sending);
    leaves_nothing(&client, tasks, &mut told).await;
}

#[tokio::test]
async fn a_handshake_that_is_dropped_closes_its_connection() {
    let (server, mut told) = watched(async |peer: Peer| peer).await;
    let client = local();
    let tasks = Handle::current().metrics().num_alive_tasks();
    let url = format!("https://{}/", server.address).parse().unwrap();
    let mut sending = Box::pin(client.send(get(url)));
    tokio::select! {
        answer = &mut sending => panic!("{answer:?}"),
        served = told.recv() => assert_eq!(served, Some("served")),
    }
    drop(sending);
    leaves_nothing(&client, tasks, &mut told).await;
}

#[tokio::test]
async fn a_body_that_is_dropped_closes_its_connection() {
    let (server, mut told) = watched(async |mut peer: Peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc").await;
        peer
    })
    .await;
    let client = local();
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut response = client.send(get(server.url("/"))).await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "abc");
    assert_eq!(told.recv().await, Some("served"));
    drop(response);
    leaves_nothing(&client, tasks, &mut told).await;
}

#[tokio::test]
async fn a_body_that_takes_too_long_closes_its_connection() {
    let (server, mut told) = watched(async |mut peer: Peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nabc").await;
        peer
    })
    .await;
    let client = local();
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut request = get(server.url("/"));
    request.deadline = crate::peer::soon(Duration::from_millis(300));
    let error = client.send(request).await.unwrap().bytes(10_000).await.unwrap_err();
    assert!(error.may_have_arrived());
    assert_eq!(told.recv().await, Some("served"));
    leaves_nothing(&client, tasks, &mut told).await;
}

#[tokio::test]
async fn a_client_that_is_dropped_closes_what_was_idle() {
    let (server, mut told) = watched(async |mut peer: Peer| {
        peer.head().await;
        peer.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        peer
    })
    .await;
    let client = local();
    client.send(get(server.url("/"))).await.unwrap().bytes(0).await.unwrap();
    assert_eq!(client.connections(), 1, "it is kept for the next request");
    assert_eq!(told.recv().await, Some("served"));
    drop(client);
    assert_eq!(timeout(TEST_TIMEOUT, told.recv()).await.unwrap(), Some("gone"));
}
