//! The database of Provost, and the only SQL in it.
//!
//! A [`Store`] is opened on a SQLite file. Changes are plain functions over [`Tx`], given to [`Store::write`]: one thread
//! applies them in order and commits many of them at once. Reads run beside it, each on one state of the database.
//!
//! Invariant: nobody hears of a change before it is on disk, and a job that fails leaves nothing behind.

#![forbid(unsafe_code)]

mod body;
mod counters;
mod error;
mod hint;
mod job;
mod lock;
mod maintain;
mod options;
mod queue;
mod reader;
pub mod row;
mod sql;
mod sqlite;
mod store;
mod value;
mod writer;

pub use body::{Body, INLINE_BYTES_MAX, load_body};
pub use counters::Stats;
pub use error::{Rule, StoreError};
pub use hint::{Hint, HintWatch};
pub use job::Pending;
pub use lock::{NodeLock, is_free, lock_dir};
pub use maintain::{
    BackupReport, CheckReport, CopyProgress, DatabaseSize, Problem, RestoreOptions, RestoreReport,
    TableSize, restore,
};
pub use options::{Durability, FaultPoint, Faults, StoreOptions, Threads};
pub use sql::{Sql, Tx};
pub use sqlite::SCHEMA_VERSION;
pub use store::Store;
pub use value::{Cells, Flow, FromColumn, FromRow, Row, ToColumn, Value};
