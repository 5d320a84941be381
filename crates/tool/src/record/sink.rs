//! Where records of what happened go: durable by default, behind a bounded queue where the caller shall not wait.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// How long a sink may take for one record. A call waits for its record, and for no longer than this.
pub const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a record could not be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(pub String);

/// Keeps records of one sort.
pub trait Sink<E>: Send + Sync + 'static {
    /// Keeps a record. It is durable once the future is ready.
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>>;
}

/// Has a record kept, by a sink that may hang or panic: whoever waits gets an answer all the same.
///
/// Most sinks are done at once, so nothing is spawned. One that blocks its thread belongs behind a [`Queue`], whose work is
/// another task's.
pub(crate) async fn kept<E, S>(sink: &Arc<S>, event: E) -> Result<(), SinkError>
where
    E: Send + 'static,
    S: Sink<E> + ?Sized,
{
    // The sink may panic before it returns a future, so that happens inside as well.
    let recording = AssertUnwindSafe(async { sink.record(event).await }).catch_unwind();
    match timeout(RECORD_TIMEOUT, recording).await {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) => Err(SinkError("the sink panicked".to_owned())),
        Err(_) => {
            let seconds = RECORD_TIMEOUT.as_secs();
            Err(SinkError(format!("the sink did not keep the record within {seconds} s")))
        }
    }
}

/// What happens to a record for which a queue has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// The caller waits until its record is durable. Nothing is lost.
    #[default]
    Wait,
    /// The caller never waits; what finds no room is counted and gone.
    Drop,
}

type Entry<E> = (E, Option<oneshot::Sender<Result<(), SinkError>>>);

/// A bounded queue before a sink.
#[derive(Debug)]
pub struct Queue<E> {
    entries: mpsc::Sender<Entry<E>>,
    when_full: WhenFull,
    lost: Arc<AtomicU64>,
}

/// The work behind a [`Queue`]: writes what is in it, in order, until every handle is gone and nothing is left.
pub struct QueueWork<E> {
    entries: mpsc::Receiver<Entry<E>>,
    sink: Arc<dyn Sink<E>>,
    lost: Arc<AtomicU64>,
}

impl<E: Send + 'static> Queue<E> {
    /// A queue of at most `capacity` records (at least one) before a sink. Somebody must run the work.
    pub fn new(
        sink: Arc<dyn Sink<E>>,
        capacity: usize,
        when_full: WhenFull,
    ) -> (Self, QueueWork<E>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Self { entries: sender, when_full, lost: Arc::clone(&lost) };
        (queue, QueueWork { entries: receiver, sink, lost })
    }

    /// Records that were not kept: there was no room, or the sink failed when nobody waited.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl<E: Send + 'static> Sink<E> for Queue<E> {
    fn record(&self, event: E) -> BoxFuture<'_, Result<(), SinkError>> {
        if self.when_full == WhenFull::Drop {
            if self.entries.try_send((event, None)).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            return std::future::ready(Ok(())).boxed();
        }
        async move {
            let gone = || SinkError("nobody writes the records any more".to_owned());
            let (written, answer) = oneshot::channel();
            if self.entries.send((event, Some(written))).await.is_err() {
                return Err(gone());
            }
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }
}

impl<E: Send + 'static> QueueWork<E> {
    /// Writes until every handle of the queue is gone and nothing is left.
    pub async fn run(mut self) {
        while let Some((event, written)) = self.entries.recv().await {
            // One record that hangs or panics must not end the work for all others.
            let result = kept(&self.sink, event).await;
            match written {
                // Whoever waited may have gone; the record is kept all the same.
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

    impl Sink<u32> for Slow {
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
        let (queue, work) = Queue::new(Arc::clone(&sink) as Arc<dyn Sink<u32>>, 1, WhenFull::Wait);
        let worker = tokio::spawn(work.run());
        let mut first = queue.record(1);
        assert!(futures::poll!(&mut first).is_pending());
        sink.tickets.add_permits(1);
        first.await.unwrap();
        assert_eq!(*sink.kept.lock().unwrap(), [1]);
        sink.tickets.add_permits(1);
        assert_eq!(queue.record(13).await.unwrap_err().to_string(), "the disk is full");
        assert_eq!(queue.lost(), 0);
        worker.abort();
        assert!(worker.await.is_err());
        assert!(queue.record(2).await.is_err(), "nobody writes any more");
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted_only_where_that_was_asked_for() {
        let sink = slow();
        let (queue, work) = Queue::new(Arc::clone(&sink) as Arc<dyn Sink<u32>>, 2, WhenFull::Drop);
        for event in [1, 13, 3, 4] {
            queue.record(event).await.unwrap();
        }
        assert_eq!(queue.lost(), 2);
        sink.tickets.add_permits(2);
        let lost = Arc::clone(&queue.lost);
        drop(queue);
        work.run().await;
        assert_eq!(*sink.kept.lock().unwrap(), [1]);
        assert_eq!(lost.load(Ordering::Relaxed), 3);
    }

    /// Hangs at 1 and panics at 2, the latter before there is anything to wait for.
    struct Bad;

    impl Sink<u32> for Bad {
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
        let late = kept(&sink, 1).await.unwrap_err();
        assert!(late.to_string().contains("within 10 s"), "{late}");
        assert_eq!(kept(&sink, 2).await.unwrap_err().to_string(), "the sink panicked");
        kept(&sink, 3).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_work_behind_a_queue_outlives_a_bad_record() {
        let (queue, work) = Queue::new(Arc::new(Bad) as Arc<dyn Sink<u32>>, 4, WhenFull::Wait);
        let worker = tokio::spawn(work.run());
        let answers = tokio::join!(queue.record(1), queue.record(2), queue.record(3));
        assert!(answers.0.is_err() && answers.1.is_err());
        assert_eq!(answers.2, Ok(()));
        drop(queue);
        worker.await.unwrap();
    }
}
