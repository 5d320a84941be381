//! The database of Provost, and the only SQL in it.
//!
//! A [`Store`] is opened on a SQLite file. Changes are plain functions over [`Tx`], given to [`Store::write`]: one thread
//! applies them in order and commits many of them at once. Reads run beside it, each on one state of the database.
//!
//! Invariant: nobody hears of a change before it is on disk, and a job that fails leaves nothing behind.

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
