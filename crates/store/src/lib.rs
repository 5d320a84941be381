//! The storage layer of Provost: a SQLite database and all SQL of the project.
//!
//! [`Store::open`] opens a database file. Changes are plain functions over [`Tx`] that callers pass to
//! [`Store::write`]: one writer applies them in order and commits many of them together. Reads run concurrently, each
//! on one consistent snapshot of the database.
//!
//! Invariant: a caller learns of a change only after the change is on disk, and a failed job leaves nothing behind.

#![forbid(unsafe_code)]

mod error;
mod options;
pub mod query;
mod schema;
mod sqlite;
mod stats;
mod store;
pub mod table;
mod transaction;

pub use error::{ConstraintKind, StoreError};
pub use options::{Durability, FaultInjector, FaultPoint, StoreOptions, ThreadMode};
pub use provost_bus::Wakeup;
pub use schema::{Schema, TablePrefix};
pub use sqlite::SCHEMA_VERSION;
pub use sqlite::job::WriteHandle;
pub use sqlite::lock::{WorkerLock, is_unlocked, lock_dir};
pub use sqlite::maintenance::{
    BackupReport, CheckFailure, CheckReport, CopyProgress, DatabaseSize, RestoreOptions,
    RestoreReport, TableSize, restore,
};
pub use stats::{CommittedChanges, EndedRuns, StoreStats};
pub use store::Store;
pub use transaction::lock::{Lockable, Locked};
pub use transaction::text::{INLINE_BYTES_MAX, StoredText, load_text};
pub use transaction::tx::{SqlExecutor, Tx};
pub use transaction::value::{ColumnSource, FromColumn, FromRow, Row, RowControl, ToColumn, Value};
