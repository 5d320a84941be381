//! The handle for all reads and writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use provost_bus::Bus;
use tokio::sync::watch;

use crate::options::{StoreOptions, ThreadMode};
use crate::sqlite;
use crate::sqlite::job::{self, WriteHandle, WriteJob};
use crate::sqlite::lock::{DatabaseLock, lock_dir};
use crate::sqlite::reader_pool::{self, ReaderPool};
use crate::sqlite::write_queue::{WritePriority, WriteQueue, write_queue};
use crate::sqlite::writer::Writer;
use crate::stats::{CommittedChanges, Counters, StoreStats};
use crate::table::state::meta;
use crate::{Schema, StoreError, Tx};

/// An open database. Clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

/// State that the clones of a store share.
struct StoreInner {
    options: StoreOptions,
    writing: WriterHandle,
    readers: Arc<ReaderPool>,
    counters: Arc<Counters>,
    lock: Mutex<Option<DatabaseLock>>,
}

/// Where jobs are executed.
enum WriterHandle {
    /// The writer has a thread; `ended` becomes true when the thread exits.
    Thread { queue: WriteQueue, ended: watch::Receiver<bool> },
    /// The writer runs on the caller's thread; `None` once the store is closed.
    Inline(Box<Mutex<Option<Writer>>>),
}

impl Store {
    /// Opens the database, creates a missing file, migrates the schema and starts the writer thread. Fails with
    /// [`StoreError::Locked`] while another process restores the database.
    ///
    /// Several processes may open the same file. If the file is not a Provost database, is corrupt or comes from a
    /// newer program, the call fails and leaves the file unchanged.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        // Only the database of an engine can be replaced by a restore, which needs exclusive access.
        let lock = match options.schema {
            Schema::Engine => Some(DatabaseLock::shared(&options.path)?),
            Schema::Memory | Schema::Sessions(_) => None,
        };
        let db = sqlite::prepare(&options)?;
        let counters = Arc::<Counters>::default();
        let writer = Writer {
            db,
            env: options.env.clone(),
            bus: Arc::clone(&options.bus),
            counters: Arc::clone(&counters),
            faults: options.faults.clone(),
            check_transactions: options.check_transactions,
        };
        let writing = match options.thread_mode {
            ThreadMode::Dedicated => start(writer, &options)?,
            ThreadMode::Inline => WriterHandle::Inline(Box::new(Mutex::new(Some(writer)))),
        };
        let readers = Arc::new(ReaderPool::new(options.clone(), Arc::clone(&counters)));
        let lock = Mutex::new(lock);
        let inner = StoreInner { options, writing, readers, counters, lock };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Enqueues a job, in the order of these calls. The returned handle resolves when the commit is on disk. It fails
    /// with [`StoreError::Busy`] if too many jobs wait, and with [`StoreError::Closed`] after [`Store::close`].
    ///
    /// A failed job is rolled back; the other jobs of its group are committed. If the database loses the whole
    /// transaction (disk full, I/O error), every job of the group gets that error. A job may run more than once, but
    /// only one run of it is committed.
    ///
    /// A job that fails with [`StoreError::Io`] at the commit was rolled back too. If the machine crashes right
    /// afterwards, however, the commit may turn out to be on disk. A caller that retries must therefore use an
    /// idempotency key.
    pub fn write<T, E>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> WriteHandle<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.enqueue(job, WritePriority::Normal)
    }

    /// Enqueues a job like [`Store::write`], before all queued jobs of normal priority. For lease renewals, which must
    /// not wait behind other work.
    pub fn write_high_priority<T, E>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> WriteHandle<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.enqueue(job, WritePriority::High)
    }

    /// Enqueues a job like [`Store::write`], in the same order, but the commit may wait a few milliseconds for another
    /// job to share it with. For writes whose result no caller needs at once.
    pub fn write_deferred<T, E>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> WriteHandle<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.enqueue(job, WritePriority::Deferred)
    }

    /// Checks that the database is writable: commits a change of one row, before all queued jobs of normal priority.
    /// A full disk or a read-only file system fails the check.
    pub fn probe_write(&self) -> WriteHandle<(), StoreError> {
        self.write_high_priority(meta::probe_write)
    }

    /// Commits the [deferred](Self::write_deferred) jobs as soon as possible.
    pub fn flush(&self) {
        if let WriterHandle::Thread { queue, .. } = &self.inner.writing {
            queue.flush();
        }
    }

    /// Executes a read on one snapshot of the database, which contains every change that was committed before the
    /// call. Waits while too many reads run.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        Arc::clone(&self.inner.readers).read(job).await
    }

    /// Returns the bus that carries the wake-ups of committed changes.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.inner.options.bus
    }

    /// Returns the counters of the store.
    pub fn stats(&self) -> StoreStats {
        let waiting = match &self.inner.writing {
            WriterHandle::Thread { queue, .. } => queue.len(),
            WriterHandle::Inline(_) => 0,
        };
        self.inner.counters.snapshot(waiting)
    }

    /// Returns the changes that this store has committed.
    pub fn committed_changes(&self) -> CommittedChanges {
        self.inner.counters.committed_changes()
    }

    /// Returns the path of the database file.
    pub fn path(&self) -> &Path {
        &self.inner.options.path
    }

    /// Returns the directory for the lock files of running workers, see [`WorkerLock`](crate::WorkerLock).
    pub fn lock_dir(&self) -> PathBuf {
        lock_dir(self.path())
    }

    /// Finishes all queued jobs and closes the database for all clones. Later calls fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        match &self.inner.writing {
            WriterHandle::Thread { queue, ended } => {
                queue.close();
                // An error means that the thread has exited, which is the awaited condition.
                ended.clone().wait_for(|ended| *ended).await.ok();
            }
            WriterHandle::Inline(writer) => {
                writer.lock().take();
            }
        }
        self.inner.readers.close();
        self.inner.lock.lock().take();
    }

    /// Executes a blocking function that opens connections of its own.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreOptions) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.inner.readers.is_closed() {
            return Err(StoreError::Closed);
        }
        let options = self.inner.options.clone();
        reader_pool::blocking(options.thread_mode, move || job::catch_panic(|| work(&options)))
            .await
    }

    /// Enqueues a job with a priority, or executes it at once with [`ThreadMode::Inline`].
    fn enqueue<T, E>(
        &self,
        work: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        priority: WritePriority,
    ) -> WriteHandle<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (job, pending) = job::job(work);
        match &self.inner.writing {
            WriterHandle::Thread { queue, .. } => queue.push(job, priority),
            WriterHandle::Inline(writer) => write_inline(writer, job),
        }
        pending
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Starts the writer thread. It serves the queue until the store is closed.
fn start(writer: Writer, options: &StoreOptions) -> Result<WriterHandle, StoreError> {
    let (queue, incoming) = write_queue();
    let (end, ended) = watch::channel(false);
    let busy_timeout = options.busy_timeout;
    let guard = CloseGuard { end };
    thread::Builder::new()
        .name("provost-store".into())
        .spawn(move || {
            let _guard = guard;
            writer.serve(incoming, busy_timeout);
        })
        .map_err(|error| StoreError::Io { detail: format!("starting a thread: {error}") })?;
    Ok(WriterHandle::Thread { queue, ended })
}

/// Signals on drop that the writer thread has exited, even after a panic.
struct CloseGuard {
    end: watch::Sender<bool>,
}

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.end.send_replace(true);
    }
}

/// Executes a job on this thread. Replies with [`StoreError::Closed`] if the store is closed.
fn write_inline(writer: &Mutex<Option<Writer>>, job: Box<dyn WriteJob>) {
    match &mut *writer.lock() {
        // `write` has already replied to the job if no transaction could be started.
        Some(writer) => writer.write(vec![job]).unwrap_or(()),
        None => job.reply(Err(StoreError::Closed)),
    }
}
