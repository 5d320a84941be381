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

pub use error::{Rule, StoreError};
pub use options::{Durability, FaultPoint, Faults, StoreOptions, Threads};
pub use provost_bus::Wakeup as Hint;
pub use schema::{Schema, TablePrefix};
pub use sqlite::SCHEMA_VERSION;
pub use sqlite::job::Pending;
pub use sqlite::lock::{NodeLock, is_free, lock_dir};
pub use sqlite::maintenance::{
    BackupReport, CheckReport, CopyProgress, DatabaseSize, Problem, RestoreOptions, RestoreReport,
    TableSize, restore,
};
pub use stats::Stats;
pub use store::Store;
pub use transaction::lock::{Lockable, Locked};
pub use transaction::text::{Body, INLINE_BYTES_MAX, load_body};
pub use transaction::tx::{Sql, Tx};
pub use transaction::value::{Cells, Flow, FromColumn, FromRow, Row, ToColumn, Value};
