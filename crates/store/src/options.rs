//! How a store is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Bus, LocalBus};
use provost_core::Env;

use crate::{Schema, StoreError};

/// The file name inside a directory that holds nothing else.
const FILE_NAME: &str = "provost.db";

/// How a store is opened; everything but the path has a default.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The database file. Its directory is created if it is missing.
    pub path: PathBuf,
    /// The tables of the database.
    pub schema: Schema,
    /// The database's clock.
    pub env: Env,
    /// How long to wait for another process that writes.
    pub busy_timeout: Duration,
    /// How many reads may run at once.
    pub readers: usize,
    /// What a commit must survive.
    pub durability: Durability,
    /// Carries the wake-ups of committed changes.
    pub bus: Arc<dyn Bus>,
    /// Where jobs run.
    pub threads: Threads,
    /// The size at which the database counts as full.
    pub bytes_max: Option<u64>,
    /// Makes the store fail on purpose: for tests and simulations.
    pub faults: Option<Faults>,
    /// Runs each transaction twice and fails one that breaks a rule of the [transaction module](crate::Tx): for tests.
    pub check_transactions: bool,
}

impl StoreOptions {
    /// The defaults for the database at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            schema: Schema::Engine,
            env: Env::system(),
            busy_timeout: Duration::from_secs(5),
            readers: 4,
            durability: Durability::PowerLoss,
            bus: Arc::new(LocalBus::new()),
            threads: Threads::Own,
            bytes_max: None,
            faults: None,
            check_transactions: false,
        }
    }

    /// The defaults for a database inside the directory `dir`.
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        Self::new(dir.as_ref().join(FILE_NAME))
    }

    /// The options of a test for a database inside the directory `dir`: transactions are checked.
    pub fn for_test(dir: impl AsRef<Path>) -> Self {
        Self { check_transactions: true, ..Self::in_dir(dir) }
    }
}

/// What a commit must survive once it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Loss of power: each group waits until the disk has it.
    PowerLoss,
    /// The end of the process only: for tests and simulations.
    ProcessExit,
}

/// Where jobs run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// Writes on the store's own thread in groups, reads on threads for blocking work.
    Own,
    /// Everything on the thread of the caller, done when the call returns: simulations that a seed decides, and paused time.
    Caller,
}

/// A place at which the store can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultPoint {
    /// Before a write transaction starts: nothing is applied.
    Begin,
    /// Before the commit: everything is rolled back.
    Commit,
    /// After the commit: the change is there, the callers hear an error.
    Answer,
    /// Before a read.
    Read,
}

/// Decides at each [`FaultPoint`] whether the store fails there, and how.
#[derive(Clone)]
pub struct Faults(Arc<dyn Fn(FaultPoint) -> Option<StoreError> + Send + Sync>);

impl Faults {
    /// Fails wherever `decide` returns an error.
    pub fn new(decide: impl Fn(FaultPoint) -> Option<StoreError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    /// The planned failure at `point`, if there is one.
    pub(crate) fn at(faults: Option<&Self>, point: FaultPoint) -> Result<(), StoreError> {
        faults.and_then(|faults| (faults.0)(point)).map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}
