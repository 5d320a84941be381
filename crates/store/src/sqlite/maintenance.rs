//! Operations for administrators: back up, restore, check, measure and compact a database.

mod backup;
mod check;
mod copy;
mod restore;
mod size;

pub use backup::BackupReport;
pub use check::{CheckFailure, CheckReport};
pub use copy::CopyProgress;
pub use restore::{RestoreOptions, RestoreReport, restore};
pub use size::{DatabaseSize, TableSize};
