//! A pool of read connections. Each read runs on one snapshot of the database.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::options::{FaultInjector, FaultPoint, StoreOptions, ThreadMode};
use crate::sqlite::job::catch_panic;
use crate::sqlite::{self, ConnectionRole, Sqlite};
use crate::stats::Counters;
use crate::transaction::tx::TxAttempt;
use crate::{StoreError, Tx};

/// A pool of read connections, opened on first use.
pub(crate) struct ReaderPool {
    options: StoreOptions,
    idle: Mutex<Vec<Sqlite>>,
    permits: Arc<Semaphore>,
    counters: Arc<Counters>,
}

impl ReaderPool {
    /// Creates a pool. Connections are opened with the first reads.
    pub(crate) fn new(options: StoreOptions, counters: Arc<Counters>) -> Self {
        let permits = Arc::new(Semaphore::new(options.readers.max(1)));
        Self { options, idle: Mutex::default(), permits, counters }
    }

    /// Waits for a permit and executes a read on a snapshot. Fails with [`StoreError::Closed`] once the pool is
    /// closed.
    pub(crate) async fn read<T, E>(
        self: Arc<Self>,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return Err(StoreError::Closed.into());
        };
        let thread_mode = self.options.thread_mode;
        let work = move || {
            let outcome = self.run(job);
            drop(permit);
            outcome
        };
        blocking(thread_mode, work).await
    }

    /// Returns true once the pool is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Rejects new reads and closes the idle connections.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().clear();
    }

    /// Executes a read on an idle connection or a new one.
    fn run<T, E: From<StoreError>>(
        &self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        FaultInjector::at(self.options.faults.as_ref(), FaultPoint::Read)?;
        self.counters.record_read();
        let idle = self.idle.lock().pop();
        let mut db = match idle {
            Some(db) => db,
            None => sqlite::connect(&self.options, ConnectionRole::Reader)?,
        };
        db.begin_read()?;
        let mut attempt = TxAttempt::new(&self.options.env);
        let outcome = catch_panic(|| job(&mut Tx::new(&mut db, &mut attempt)));
        // A connection that cannot end its transaction is not reused.
        if db.rollback().is_ok() && !self.permits.is_closed() {
            self.idle.lock().push(db);
        }
        outcome
    }
}

/// Executes the function on Tokio's blocking threads. Without a runtime, or with [`ThreadMode::Inline`], executes it
/// on the caller's thread.
pub(crate) async fn blocking<T, E>(
    thread_mode: ThreadMode,
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    match Handle::try_current() {
        Ok(runtime) if thread_mode == ThreadMode::Dedicated => {
            // The function does not panic, so an error means that the runtime is shutting down.
            let outcome = runtime.spawn_blocking(work).await;
            outcome.unwrap_or_else(|_| Err(StoreError::Closed.into()))
        }
        _ => work(),
    }
}
