//! Sinks for audit and usage records. A sink is durable; a buffered sink decouples it from the caller.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Maximum time for writing one record.
pub const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of a record that could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

/// Receives records of one type.
pub trait RecordSink<E>: Send + Sync + 'static {
    /// Writes a record. After `Ok`, the record is durable, except in a [`BufferedSink`] with [`Overflow::Drop`].
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>>;
}

/// Writes a record to a sink that may hang or panic. Returns an error after [`RECORD_TIMEOUT`] or a panic.
///
/// Most sinks complete immediately, so no task is spawned. A sink that blocks its thread belongs behind a
/// [`BufferedSink`], whose worker runs in its own task.
pub(crate) async fn record_with_timeout<E, S>(sink: &Arc<S>, event: E) -> Result<(), SinkError>
where
    E: Send + 'static,
    S: RecordSink<E> + ?Sized,
{
    // The sink may already panic before it returns a future.
    let recording = AssertUnwindSafe(async { sink.record(event).await }).catch_unwind();
    match timeout(RECORD_TIMEOUT, recording).await {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(SinkError("the sink panicked".to_owned())),
        Err(_) => {
            let seconds = RECORD_TIMEOUT.as_secs();
            Err(SinkError(format!("the sink did not write the record within {seconds} s")))
        }
    }
}

/// What happens to a record that does not fit into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overflow {
    /// The caller waits until its record is durable. No record is lost.
    #[default]
    Block,
    /// The caller never waits. A record that does not fit is counted and discarded.
    Drop,
}

type QueuedRecord<E> = (E, Option<oneshot::Sender<Result<(), SinkError>>>);

/// A bounded buffer in front of a sink, so that a slow sink does not delay calls.
#[derive(Debug)]
pub struct BufferedSink<E> {
    entries: mpsc::Sender<QueuedRecord<E>>,
    overflow: Overflow,
    lost: Arc<AtomicU64>,
}

/// Worker of a [`BufferedSink`]. It writes the buffered records in order, until the `BufferedSink` is dropped and the
/// buffer is empty.
pub struct BufferedSinkWorker<E> {
    entries: mpsc::Receiver<QueuedRecord<E>>,
    sink: Arc<dyn RecordSink<E>>,
    lost: Arc<AtomicU64>,
}

impl<E: Send + 'static> BufferedSink<E> {
    /// Creates a buffer of at most `capacity` records in front of a sink. The capacity is at least one. The caller must
    /// run the worker.
    pub fn new(
        sink: Arc<dyn RecordSink<E>>,
        capacity: usize,
        overflow: Overflow,
    ) -> (Self, BufferedSinkWorker<E>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Self { entries: sender, overflow, lost: Arc::clone(&lost) };
        (queue, BufferedSinkWorker { entries: receiver, sink, lost })
    }

    /// Returns the number of records that were dropped because the buffer was full, or that the sink failed to write
    /// after the caller had returned.
    pub fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl<E: Send + 'static> RecordSink<E> for BufferedSink<E> {
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>> {
        if self.overflow == Overflow::Drop {
            if self.entries.try_send((event, None)).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            let closed_error = || SinkError("the worker of the sink has ended".to_owned());
            let (written, answer) = oneshot::channel();
            if self.entries.send((event, Some(written))).await.is_err() {
                return Err(closed_error());
            }
            answer.await.unwrap_or_else(|_| Err(closed_error()))
        }
        .boxed()
    }
}

impl<E: Send + 'static> BufferedSinkWorker<E> {
    /// Writes records until the [`BufferedSink`] is dropped and the buffer is empty.
    pub async fn run(mut self) {
        while let Some((event, written)) = self.entries.recv().await {
            // A record that hangs or panics must not stop the worker.
            let result = record_with_timeout(&self.sink, event).await;
            match written {
                // The caller may have gone, but its record is still written.
                Some(written) => drop(written.send(result)),
                None if result.is_err() => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Semaphore;

    use super::*;

    /// Writes one record per ticket.
    struct Slow {
        kept: Mutex<Vec<u32>>,
        tickets: Semaphore,
    }

    impl RecordSink<u32> for Slow {
        fn record(&self, event: u32) -> BoxFuture<'_, Result<(), SinkError>> {
            async move {
                self.tickets.acquire().await.unwrap().forget();
                if event == 13 {
                    return Err(SinkError("the disk is full".to_owned()));
                }
                self.kept.lock().unwrap().push(event);
                Ok(())
            }
            .boxed()
        }
    }

    fn slow() -> Arc<Slow> {
        Arc::new(Slow { kept: Mutex::default(), tickets: Semaphore::new(0) })
    }

    #[tokio::test]
    async fn by_default_the_caller_waits_until_its_record_is_durable() {
        let sink = slow();
        let (queue, work) =
            BufferedSink::new(Arc::clone(&sink) as Arc<dyn RecordSink<u32>>, 1, Overflow::Block);
        let worker = tokio::spawn(work.run());
        let mut first = queue.record(1);
        assert!(futures::poll!(&mut first).is_pending());
        sink.tickets.add_permits(1);
        first.await.unwrap();
        assert_eq!(*sink.kept.lock().unwrap(), [1]);
        sink.tickets.add_permits(1);
        assert_eq!(queue.record(13).await.unwrap_err().to_string(), "the disk is full");
        assert_eq!(queue.lost_count(), 0);
        worker.abort();
        assert!(worker.await.is_err());
        assert!(queue.record(2).await.is_err(), "nobody writes any more");
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted_only_where_that_was_asked_for() {
        let sink = slow();
        let (queue, work) =
            BufferedSink::new(Arc::clone(&sink) as Arc<dyn RecordSink<u32>>, 2, Overflow::Drop);
        for event in [1, 13, 3, 4] {
            queue.record(event).await.unwrap();
        }
        assert_eq!(queue.lost_count(), 2);
        sink.tickets.add_permits(2);
        let lost = Arc::clone(&queue.lost);
        drop(queue);
        work.run().await;
        assert_eq!(*sink.kept.lock().unwrap(), [1]);
        assert_eq!(lost.load(Ordering::Relaxed), 3);
    }

    /// Hangs at 1 and panics at 2, the latter before there is anything to wait for.
    struct Bad;

    impl RecordSink<u32> for Bad {
        fn record(&self, event: u32) -> BoxFuture<'_, Result<(), SinkError>> {
            match event {
                1 => std::future::pending().boxed(),
                2 => panic!("the disk is on fire"),
                _ => std::future::ready(Ok(())).boxed(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sink_that_hangs_or_panics_holds_nobody() {
        let sink = Arc::new(Bad);
        let late = record_with_timeout(&sink, 1).await.unwrap_err();
        assert!(late.to_string().contains("within 10 s"), "{late}");
        assert_eq!(
            record_with_timeout(&sink, 2).await.unwrap_err().to_string(),
            "the sink panicked"
        );
        record_with_timeout(&sink, 3).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_work_behind_a_queue_outlives_a_bad_record() {
        let (queue, work) =
            BufferedSink::new(Arc::new(Bad) as Arc<dyn RecordSink<u32>>, 4, Overflow::Block);
        let worker = tokio::spawn(work.run());
        let answers = tokio::join!(queue.record(1), queue.record(2), queue.record(3));
        assert!(answers.0.is_err() && answers.1.is_err());
        assert_eq!(answers.2, Ok(()));
        drop(queue);
        worker.await.unwrap();
    }
}
