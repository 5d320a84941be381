//! Reads and bulk changes over several tables.

pub mod deferred_run;
pub mod event_log;
pub mod metrics;
pub mod pending_work;
pub mod retention;
