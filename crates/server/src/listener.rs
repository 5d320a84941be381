//! Accepts connections, bounds them in number and in time, and ends them when the server stops.
//!
//! A connection that waits costs the buffers of its protocol; a stream costs no more than that.

mod connection;
mod timed_stream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::app::App;
use crate::router::router;

/// After a failure to accept, such as too many open files, the next try comes after so long, and after twice that the next
/// time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause.
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Connections above the limit that are answered at once; the others are closed without a response.
const REFUSALS_MAX: usize = 64;
/// How long a refused connection may take to read the response.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The response to a connection above the limit.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 178\r\n\r\n\
{\"type\":\"urn:provost:problem:connections\",\"title\":\"Not available now\",\"status\":503,\
\"detail\":\"there are too many connections: try again\",\"code\":\"connections\",\"kind\":\"unavailable\"}";

/// Serves an app at a listener until `shutdown` is done. Then nothing new is taken in, streams and waits end, requests under
/// way have the time of [`Limits::drain_timeout`](crate::Limits::drain_timeout) to end, and what is left is closed.
pub async fn serve(app: App, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let limits = app.options().limits.clone();
    let permits_max = u32::try_from(limits.connections_max).unwrap_or(u32::MAX).max(1);
    let permits = Arc::new(Semaphore::new(permits_max as usize));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let router = router(app.clone());
    tokio::pin!(shutdown);
    let mut pause = ACCEPT_PAUSE;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = app.shutdown().cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = ACCEPT_PAUSE;
                match Arc::clone(&permits).try_acquire_owned() {
                    Ok(permit) => {
                        let (app, router) = (app.clone(), router.clone());
                        tokio::spawn(async move {
                            connection::run(app, router, stream, peer.ip()).await;
                            drop(permit);
                        });
                    }
                    Err(_full) => {
                        app.metrics().connection_refused();
                        if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                            tokio::spawn(refuse(stream, permit));
                        }
                    }
                }
            }
            Err(error) if is_transient_accept_error(&error) => {}
            Err(error) => {
                app.metrics().accept_failed();
                tracing::error!(%error, "no connection can be accepted: the limit of open files may be too low");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
    drop(listener);
    app.drain();
    // All permits are free once no connection is left. Connections end by themselves when their time is over.
    drop(timeout(limits.drain_timeout + REFUSAL_TIMEOUT, permits.acquire_many(permits_max)).await);
}

/// True if only one connection failed, and the next one may be fine.
fn is_transient_accept_error(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted | Kind::ConnectionReset | Kind::ConnectionRefused
    )
}

/// Refuses a connection above the limit. What it sends is read, so that closing it does not lose the response.
async fn refuse(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let told = async {
        stream.write_all(REFUSAL).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // The connection is closed in any case.
    drop(timeout(REFUSAL_TIMEOUT, told).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(REFUSAL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: provost_api::Problem = serde_json::from_str(body).unwrap();
        assert_eq!((problem.status, problem.code.as_str()), (503, "connections"));
    }
}
