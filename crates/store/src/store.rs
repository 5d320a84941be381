//! The handle through which everybody reads and writes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use provost_bus::Bus;
use tokio::sync::watch;

use crate::options::{StoreOptions, Threads};
use crate::sqlite;
use crate::sqlite::job::{self, Job, Pending};
use crate::sqlite::lock::{DatabaseLock, lock_dir};
use crate::sqlite::reader_pool::{self, Readers};
use crate::sqlite::write_queue::{Lane, WriteQueue, write_queue};
use crate::sqlite::writer::Writer;
use crate::stats::{Counters, Stats};
use crate::{Schema, StoreError, Tx};

/// The database, open. Clones share it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    options: StoreOptions,
    writing: Writing,
    readers: Arc<Readers>,
    counters: Arc<Counters>,
    lock: Mutex<Option<DatabaseLock>>,
}

enum Writing {
    /// The writer's own thread, and the signal that it has ended.
    Thread { queue: WriteQueue, ended: watch::Receiver<bool> },
    /// The thread of whoever calls.
    Caller(Box<Mutex<Option<Writer>>>),
}

impl Store {
    /// Opens the database; creates it and brings its schema up to date as needed.
    ///
    /// Several processes may have it open. A file that is no database, is damaged or comes from a newer program is
    /// refused and left as it is.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        // Only the database of an engine can be replaced while nobody has it open.
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
        let writing = match options.threads {
            Threads::Own => start(writer, &options)?,
            Threads::Caller => Writing::Caller(Box::new(Mutex::new(Some(writer)))),
        };
        let readers = Arc::new(Readers::new(options.clone(), Arc::clone(&counters)));
        let lock = Mutex::new(lock);
        let shared = Shared { options, writing, readers, counters, lock };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Enqueues the job now; jobs are applied in the order of these calls. Resolves once the commit is on disk.
    ///
    /// A job that fails leaves nothing behind and the others of its group are kept. Only where the database gives up the
    /// whole transaction (no room, a broken disk), everybody in the group hears that error. It may be run more than once, but
    /// only one run of it stays.
    ///
    /// One that meets [`StoreError::Io`] at the commit left nothing either, but if the machine stops right after, the disk
    /// may turn out to have it: whoever tries again must carry a key.
    pub fn write<T, E>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.enqueue(job, Lane::Normal)
    }

    /// Like [`Store::write`], but before everything that waits: for lease renewals, which must never wait behind work.
    pub fn write_urgent<T, E>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.enqueue(job, Lane::Urgent)
    }

    /// Like [`Store::write`], in the same order, but nobody waits for it: it is committed together with the next job that
    /// somebody waits for, or after a moment.
    pub fn write_deferred<T, E>(
        &self,
        job: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.enqueue(job, Lane::Deferred)
    }

    /// Commits what was written [deferred](Self::write_deferred) as soon as possible.
    pub fn flush(&self) {
        if let Writing::Thread { queue, .. } = &self.shared.writing {
            queue.flush();
        }
    }

    /// Reads one state of the database: everything that was committed before the call, and nothing half done.
    pub async fn read<T, E>(
        &self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        Arc::clone(&self.shared.readers).read(job).await
    }

    /// The bus that carries the wake-ups of committed changes.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.shared.options.bus
    }

    /// What the store did since it was opened.
    pub fn stats(&self) -> Stats {
        let waiting = match &self.shared.writing {
            Writing::Thread { queue, .. } => queue.len(),
            Writing::Caller(_) => 0,
        };
        self.shared.counters.stats(waiting)
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.shared.options.path
    }

    /// The directory for the locks of running nodes, see [`NodeLock`](crate::NodeLock).
    pub fn lock_dir(&self) -> PathBuf {
        lock_dir(self.path())
    }

    /// Finishes what was enqueued, then closes the database for all clones. Later calls fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        match &self.shared.writing {
            Writing::Thread { queue, ended } => {
                queue.close();
                // An error means that the thread is gone, which is what is waited for.
                ended.clone().wait_for(|ended| *ended).await.ok();
            }
            Writing::Caller(writer) => {
                writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
        self.shared.readers.close();
        self.shared.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Runs work on connections of its own, where it may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&StoreOptions) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.shared.readers.is_closed() {
            return Err(StoreError::Closed);
        }
        let options = self.shared.options.clone();
        reader_pool::blocking(options.threads, move || job::caught(|| work(&options))).await
    }

    fn enqueue<T, E>(
        &self,
        work: impl Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
        lane: Lane,
    ) -> Pending<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let (job, pending) = job::job(work);
        match &self.shared.writing {
            Writing::Thread { queue, .. } => queue.push(job, lane),
            Writing::Caller(writer) => write_here(writer, job),
        }
        pending
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// Starts the writer's thread.
fn start(writer: Writer, options: &StoreOptions) -> Result<Writing, StoreError> {
    let (queue, incoming) = write_queue();
    let (end, ended) = watch::channel(false);
    let busy_timeout = options.busy_timeout;
    let guard = EndGuard { end };
    thread::Builder::new()
        .name("provost-store".into())
        .spawn(move || {
            let _guard = guard;
            writer.serve(incoming, busy_timeout);
        })
        .map_err(|error| StoreError::Io { detail: format!("starting a thread: {error}") })?;
    Ok(Writing::Thread { queue, ended })
}

/// Tells everybody when the writer's thread ends, even if it ends by a defect.
struct EndGuard {
    end: watch::Sender<bool>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.end.send_replace(true);
    }
}

fn write_here(writer: &Mutex<Option<Writer>>, job: Box<dyn Job>) {
    match &mut *writer.lock().unwrap_or_else(PoisonError::into_inner) {
        // The job was told itself if no transaction could be started.
        Some(writer) => writer.write(vec![job]).unwrap_or(()),
        None => job.answer(Err(StoreError::Closed)),
    }
}
