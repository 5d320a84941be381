//! Execution of a future in its own task.

use std::any::Any;

use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument, Span};

/// Why a task returned no result.
pub(crate) enum TaskFailure {
    /// The task panicked, with the message of the panic.
    Panicked(String),
    Aborted,
}

/// Runs a future in its own task, so that a blocked thread cannot delay the caller. Dropping this future aborts the
/// task.
pub(crate) async fn run_in_task<T: Send + 'static>(
    body: impl Future<Output = T> + Send + 'static,
) -> Result<T, TaskFailure> {
    let task = AbortOnDropHandle::new(tokio::spawn(body.instrument(Span::current())));
    task.await.map_err(|failure| match failure.try_into_panic() {
        Ok(panic) => TaskFailure::Panicked(panic_text(&*panic)),
        Err(_aborted) => TaskFailure::Aborted,
    })
}

/// Returns the message of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}
