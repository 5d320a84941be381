//! A write job and the future of its result.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::{StoreError, Tx};

/// The future of an enqueued write. Resolves when the commit is on disk.
///
/// Dropping the handle does not cancel the job.
#[must_use = "await it to know that the change is on disk, or `detach` it"]
pub struct WriteHandle<T, E> {
    outcome: oneshot::Receiver<Result<T, E>>,
}

impl<T, E> WriteHandle<T, E> {
    /// Drops the handle. The job runs anyway.
    pub fn detach(self) {}
}

impl<T, E: From<StoreError>> WriteHandle<T, E> {
    /// Blocks the current thread until the job is finished. Must not be called inside an async runtime.
    pub fn wait(self) -> Result<T, E> {
        self.outcome.blocking_recv().unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

impl<T, E: From<StoreError>> Future for WriteHandle<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.outcome)
            .poll(context)
            .map(|outcome| outcome.unwrap_or_else(|_| Err(StoreError::Closed.into())))
    }
}

impl<T, E> fmt::Debug for WriteHandle<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteHandle")
    }
}

/// Decides whether the changes of a job become part of the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobResult {
    Commit,
    Rollback,
}

/// A type-erased job, so that one queue holds jobs of all types.
pub(crate) trait WriteJob: Send {
    /// Executes the job and stores its result until [`WriteJob::reply`].
    fn run(&mut self, tx: &mut Tx<'_>) -> JobResult;

    /// Replaces the result by an error.
    fn fail(&mut self, error: StoreError) -> JobResult;

    /// Sends the result to the caller, or the error of the whole group.
    fn reply(self: Box<Self>, group: Result<(), StoreError>);
}

/// Wraps a function as a job and returns it with the handle of its result.
pub(crate) fn job<T, E>(
    work: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
) -> (Box<dyn WriteJob>, WriteHandle<T, E>)
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (reply, outcome) = oneshot::channel();
    (Box::new(TypedJob { work, result: None, reply }), WriteHandle { outcome })
}

/// A function with its result and the channel of its caller.
struct TypedJob<F, T, E> {
    work: F,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> WriteJob for TypedJob<F, T, E>
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> JobResult {
        let result = catch_panic(|| (self.work)(tx));
        let verdict = if result.is_ok() { JobResult::Commit } else { JobResult::Rollback };
        self.result = Some(result);
        verdict
    }

    fn fail(&mut self, error: StoreError) -> JobResult {
        self.result = Some(Err(error.into()));
        JobResult::Rollback
    }

    fn reply(self: Box<Self>, group: Result<(), StoreError>) {
        let Self { result, reply, .. } = *self;
        let answer = match group {
            Ok(()) => result.unwrap_or_else(|| {
                Err(StoreError::bug("a job was answered before it was run").into())
            }),
            Err(error) => Err(error.into()),
        };
        // The caller may have dropped its handle.
        drop(reply.send(answer));
    }
}

/// Converts a panic into an error, so that a faulty job does not end the thread that serves all jobs.
pub(crate) fn catch_panic<T, E: From<StoreError>>(
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        Err(StoreError::bug(format!("a job panicked: {}", panic_text(payload.as_ref()))).into())
    })
}

/// Returns the message of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}
