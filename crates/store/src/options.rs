//! Options for opening a store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Bus, LocalBus};
use provost_core::Env;

use crate::{Schema, StoreError};

/// Default file name of the database in a directory of its own.
const FILE_NAME: &str = "provost.db";

/// Options for opening a store. Everything except the path has a default.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The database file. [`Store::open`](crate::Store::open) creates a missing directory.
    pub path: PathBuf,
    /// The tables of the database.
    pub schema: Schema,
    /// Source of time and ids. Its clock is the clock of the database.
    pub env: Env,
    /// Time to wait for the write lock of another process before [`StoreError::Busy`].
    pub busy_timeout: Duration,
    /// Maximum number of concurrent reads, at least one.
    pub readers: usize,
    /// The failures that a commit must survive.
    pub durability: Durability,
    /// Sends the wake-ups of committed changes.
    pub bus: Arc<dyn Bus>,
    /// The threads on which jobs run.
    pub thread_mode: ThreadMode,
    /// Size at which the database counts as full; `None` for no limit.
    pub bytes_max: Option<u64>,
    /// Injects errors, for tests and simulations.
    pub faults: Option<FaultInjector>,
    /// Runs each job twice and rejects jobs that break the rules of transaction functions (module `transaction`); for
    /// tests.
    pub check_transactions: bool,
}

impl StoreOptions {
    /// Returns the default options for the database at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            schema: Schema::Engine,
            env: Env::system(),
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            durability: Durability::PowerLoss,
            bus: Arc::new(LocalBus::new()),
            thread_mode: ThreadMode::Dedicated,
            bytes_max: None,
            faults: None,
            check_transactions: false,
        }
    }

    /// Returns the default options for a database in the directory `dir`.
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        Self::new(dir.as_ref().join(FILE_NAME))
    }

    /// Returns options for tests: a database in `dir` with checked transactions.
    pub fn for_test(dir: impl AsRef<Path>) -> Self {
        Self { check_transactions: true, ..Self::in_dir(dir) }
    }
}

/// The failures that an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure: each commit waits for the disk.
    PowerLoss,
    /// Survives only the end of the process; for tests and simulations.
    ProcessExit,
}

/// The threads on which jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadMode {
    /// Writes run in groups on a thread of the store; reads run on Tokio's blocking threads.
    Dedicated,
    /// Each job runs on the caller's thread and is finished when the call returns. For deterministic simulations and
    /// paused time.
    Inline,
}

/// A point at which a [`FaultInjector`] can make the store fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    /// Before a write transaction starts; nothing is applied.
    Begin,
    /// Before the commit; the transaction is rolled back.
    Commit,
    /// After the commit: the change is stored, but the callers receive an error.
    AfterCommit,
    /// Before a read.
    Read,
}

/// Decides at each [`FaultPoint`] whether the store fails, and with which error.
#[derive(Clone)]
pub struct FaultInjector(Arc<dyn Fn(FaultPoint) -> Option<StoreError> + Send + Sync>);

impl FaultInjector {
    /// Creates an injector that fails wherever `decide` returns an error.
    pub fn new(decide: impl Fn(FaultPoint) -> Option<StoreError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// Fails with the injected error at `point`, if there is one.
    pub(crate) fn at(faults: Option<&Self>, point: FaultPoint) -> Result<(), StoreError> {
        faults.and_then(|faults| (faults.0)(point)).map_or(Ok(()), Err)
    }
}

impl fmt::Debug for FaultInjector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultInjector")
    }
}
