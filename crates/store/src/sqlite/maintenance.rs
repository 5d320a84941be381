//! What operators do with a database: copy it, bring a copy back, check it, measure it, make it smaller.

mod backup;
mod check;
mod copy;
mod restore;
mod size;

pub use backup::BackupReport;
pub use check::{CheckReport, Problem};
pub use copy::CopyProgress;
pub use restore::{RestoreOptions, RestoreReport, restore};
pub use size::{DatabaseSize, TableSize};
