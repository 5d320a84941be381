//! The queue of the writer: two bounded channels. High-priority jobs run first; all other jobs keep their order of
//! submission.

use std::mem;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, at, bounded, never, select_biased};
use parking_lot::RwLock;

use crate::StoreError;
use crate::sqlite::job::WriteJob;

/// Maximum number of queued jobs. Beyond it the disk cannot keep up, and new jobs fail with [`StoreError::Busy`].
const JOBS_MAX: usize = 4096;

/// Maximum number of additional high-priority jobs. Each worker has at most one lease renewal in flight.
const HIGH_PRIORITY_JOBS_MAX: usize = 256;

/// Maximum time that a deferred job waits for another job to share its commit.
const DEFERRED_MAX: Duration = Duration::from_millis(2);

/// Priority of a job in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WritePriority {
    /// Runs before all other jobs.
    High,
    Normal,
    /// Runs in order with the normal jobs, but the writer first waits a moment for another job to commit it with.
    Deferred,
}

/// An entry of a channel.
enum Entry {
    WriteJob(QueuedWrite),
    /// Ends the wait of the deferred jobs before it.
    Flush,
}

/// A job, and since when it waits.
struct QueuedWrite {
    job: Box<dyn WriteJob>,
    since: Instant,
    is_deferred: bool,
}

/// The sending side of the queue.
pub(crate) struct WriteQueue {
    /// `None` once the queue is closed.
    senders: RwLock<Option<Senders>>,
}

/// The sending sides of both channels.
struct Senders {
    high: Sender<Entry>,
    normal: Sender<Entry>,
}

/// The receiving side of the queue.
pub(crate) struct WriteReceiver {
    high: Receiver<Entry>,
    normal: Receiver<Entry>,
    /// Received jobs that belong to the next group.
    carried_over: Vec<Box<dyn WriteJob>>,
}

/// Creates an empty queue with its sending and its receiving side.
pub(crate) fn write_queue() -> (WriteQueue, WriteReceiver) {
    let (high, high_jobs) = bounded(HIGH_PRIORITY_JOBS_MAX);
    let (normal, jobs) = bounded(JOBS_MAX);
    let queue = WriteQueue { senders: RwLock::new(Some(Senders { high, normal })) };
    (queue, WriteReceiver { high: high_jobs, normal: jobs, carried_over: Vec::new() })
}

impl WriteQueue {
    /// Enqueues a job. If the queue is full or closed, replies to the job with the error at once.
    pub(crate) fn push(&self, job: Box<dyn WriteJob>, priority: WritePriority) {
        let senders = self.senders.read();
        let Some(Senders { high, normal }) = &*senders else {
            return job.reply(Err(StoreError::Closed));
        };
        let sender = if priority == WritePriority::High { high } else { normal };
        let is_deferred = priority == WritePriority::Deferred;
        let entry = Entry::WriteJob(QueuedWrite { job, since: Instant::now(), is_deferred });
        let Err(refused) = sender.try_send(entry) else { return };
        let error = match refused.is_full() {
            true => StoreError::Busy { detail: format!("{} changes wait", sender.len()) },
            false => StoreError::Closed,
        };
        if let Entry::WriteJob(waiting) = refused.into_inner() {
            waiting.job.reply(Err(error));
        }
    }

    /// Ends the wait of the deferred jobs.
    pub(crate) fn flush(&self) {
        let senders = self.senders.read();
        if let Some(senders) = &*senders {
            // A full channel needs no flush: the writer takes a whole group without waiting.
            senders.normal.try_send(Entry::Flush).unwrap_or(());
        }
    }

    /// Rejects new jobs. The writer still finishes the queued ones.
    pub(crate) fn close(&self) {
        self.senders.write().take();
    }

    /// Returns the number of queued jobs, without those that the writer has already taken. 0 once the queue is closed.
    pub(crate) fn len(&self) -> usize {
        let senders = self.senders.read();
        senders.as_ref().map_or(0, |senders| senders.high.len() + senders.normal.len())
    }
}

impl WriteReceiver {
    /// Waits for jobs and returns at most `jobs_max` of them. `None` once the queue is closed and empty.
    pub(crate) fn next_group(&mut self, jobs_max: usize) -> Option<Vec<Box<dyn WriteJob>>> {
        let mut group = mem::take(&mut self.carried_over);
        if group.is_empty() {
            self.collect_group(&mut group, jobs_max);
        }
        while group.len() < jobs_max {
            match self.high.try_recv().or_else(|_| self.normal.try_recv()) {
                Ok(Entry::WriteJob(waiting)) => group.push(waiting.job),
                Ok(Entry::Flush) => {}
                Err(_) => break,
            }
        }
        (!group.is_empty()).then_some(group)
    }

    /// Adds jobs to `group` until one arrives that is not deferred. If deferred jobs arrive first, waits at most
    /// [`DEFERRED_MAX`] longer. Returns early for a flush, a full group or a closed queue.
    fn collect_group(&self, group: &mut Vec<Box<dyn WriteJob>>, jobs_max: usize) {
        let mut deadline = never();
        while group.len() < jobs_max {
            let received = select_biased! {
                // Both channels are closed together, and the other one may still hold jobs.
                recv(self.high) -> entry => entry.or_else(|_| self.normal.recv()),
                recv(self.normal) -> entry => entry,
                recv(deadline) -> _ => return,
            };
            match received {
                Ok(Entry::WriteJob(QueuedWrite { job, since, is_deferred: true })) => {
                    if group.is_empty() {
                        deadline = at(since + DEFERRED_MAX);
                    }
                    group.push(job);
                }
                Ok(Entry::WriteJob(waiting)) => return group.push(waiting.job),
                Ok(Entry::Flush) if group.is_empty() => {}
                Ok(Entry::Flush) | Err(_) => return,
            }
        }
    }

    /// Replies with the error to every job that has waited for at least `max_wait`. The others remain for the next
    /// group.
    pub(crate) fn fail_expired(&mut self, max_wait: Duration, error: &StoreError) {
        for channel in [&self.high, &self.normal] {
            while let Ok(entry) = channel.try_recv() {
                let Entry::WriteJob(QueuedWrite { job, since, .. }) = entry else { continue };
                if since.elapsed() < max_wait {
                    self.carried_over.push(job);
                    break;
                }
                job.reply(Err(error.clone()));
            }
        }
    }
}
