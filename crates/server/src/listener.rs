//! Accepts connections, limits their number and duration, and closes them on shutdown.
//!
//! An idle connection and an open stream use only the buffers of their protocol.

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

/// First delay after a failure to accept a connection, such as too many open files. Each further delay is twice as long.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);
/// Maximum delay after a failure to accept a connection.
const ACCEPT_RETRY_DELAY_MAX: Duration = Duration::from_secs(1);
/// Maximum number of connections above the limit that receive a response. Further ones are closed without a response.
const REJECTIONS_MAX: usize = 64;
/// Maximum time for a rejected connection to read the response.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// Response to a connection above the limit.
const REJECTION: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 180\r\n\r\n\
{\"type\":\"urn:provost:problem:connections\",\"title\":\"Service unavailable\",\"status\":503,\
\"detail\":\"there are too many connections: try again\",\"code\":\"connections\",\"kind\":\"unavailable\"}";

/// Serves an app on a listener until `shutdown` completes. Then the server accepts no further connections and ends streams and
/// waits. Requests in progress have [`Limits::drain_timeout`](crate::Limits::drain_timeout) to end before they are closed.
pub async fn serve(app: App, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let limits = app.options().limits.clone();
    let permits_max = u32::try_from(limits.connections_max).unwrap_or(u32::MAX).max(1);
    let permits = Arc::new(Semaphore::new(permits_max as usize));
    let rejections = Arc::new(Semaphore::new(REJECTIONS_MAX));
    let router = router(app.clone());
    tokio::pin!(shutdown);
    let mut delay = ACCEPT_RETRY_DELAY;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = app.shutdown().cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                delay = ACCEPT_RETRY_DELAY;
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
                        if let Ok(permit) = Arc::clone(&rejections).try_acquire_owned() {
                            tokio::spawn(reject(stream, permit));
                        }
                    }
                }
            }
            Err(error) if is_transient_accept_error(&error) => {}
            Err(error) => {
                app.metrics().accept_failed();
                tracing::error!(%error, "cannot accept a connection: the limit of open files may be too low");
                tokio::time::sleep(delay).await;
                delay = (delay * 2).min(ACCEPT_RETRY_DELAY_MAX);
            }
        }
    }
    drop(listener);
    app.begin_shutdown();
    // All permits are free when no connection is left. Each connection ends by its own timeout.
    drop(
        timeout(limits.drain_timeout + REJECTION_TIMEOUT, permits.acquire_many(permits_max)).await,
    );
}

/// Returns true if the error concerns one connection only, so that the next accept can succeed.
fn is_transient_accept_error(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted | Kind::ConnectionReset | Kind::ConnectionRefused
    )
}

/// Rejects a connection above the limit. It reads what the client sends, because closing a connection with unread data would
/// discard the response.
async fn reject(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let response = async {
        stream.write_all(REJECTION).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // The connection is closed after an error, too.
    drop(timeout(REJECTION_TIMEOUT, response).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(REJECTION).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: provost_api::Problem = serde_json::from_str(body).unwrap();
        assert_eq!((problem.status, problem.code.as_str()), (503, "connections"));
    }
}
