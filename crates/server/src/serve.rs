//! Connections: taking them in, bounding them in number and in time, and letting them go when the server stops.
//!
//! A connection that waits costs the buffers of its protocol and nothing else; a stream costs no more than that.

mod connection;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::app::App;
use crate::router::Site;

/// After a failure to accept, such as too many open files, the next try comes after so long, and after twice that the next
/// time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause.
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Connections beyond the limit that are told so at once; the others are closed without a word.
const REFUSALS_MAX: usize = 64;
/// How long a refused connection may take to hear it.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// What a connection beyond the limit hears.
const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
retry-after: 1\r\nconnection: close\r\ncontent-length: 178\r\n\r\n\
{\"type\":\"urn:provost:problem:connections\",\"title\":\"Not available now\",\"status\":503,\
\"detail\":\"there are too many connections: try again\",\"code\":\"connections\",\"kind\":\"unavailable\"}";

/// Serves an app at a listener until `shutdown` is done. Then nothing new is taken in, streams and waits end, requests under
/// way have the time of [`Limits::drain_timeout`](crate::Limits::drain_timeout) to end, and what is left is closed.
pub async fn serve(app: App, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let limits = app.shared.options.limits.clone();
    let seats_max = u32::try_from(limits.connections_max).unwrap_or(u32::MAX).max(1);
    let seats = Arc::new(Semaphore::new(seats_max as usize));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let server = Arc::new(connection::Server { site: Site::new(app.clone()), app: app.clone() });
    tokio::pin!(shutdown);
    let mut pause = ACCEPT_PAUSE;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = app.shared.draining.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                pause = ACCEPT_PAUSE;
                match Arc::clone(&seats).try_acquire_owned() {
                    Ok(seat) => {
                        let server = Arc::clone(&server);
                        tokio::spawn(async move {
                            connection::run(&server, stream, peer.ip()).await;
                            drop(seat);
                        });
                    }
                    Err(_full) => {
                        app.shared.metrics.connection_refused();
                        if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                            tokio::spawn(refuse(stream, permit));
                        }
                    }
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                app.shared.metrics.accept_failed();
                tracing::error!(%error, "no connection can be accepted: the limit of open files may be too low");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
            }
        }
    }
    drop(listener);
    app.drain();
    // Whoever has all the seats knows that nobody is left. Connections end themselves when their time is over.
    drop(timeout(limits.drain_timeout + REFUSAL_TIMEOUT, seats.acquire_many(seats_max)).await);
}

/// True if only one connection failed, and the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted | Kind::ConnectionReset | Kind::ConnectionRefused
    )
}

/// Tells a connection that there are too many. What it sends is read, so that closing it does not lose the answer.
async fn refuse(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let told = async {
        stream.write_all(REFUSAL).await?;
        stream.shutdown().await?;
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    // Whatever happens to it, it is gone.
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
