//! Reads over one or several tables, in the form that programs show to users.
//!
//! A function over [`Store`](crate::Store) opens a transaction; a function over [`Tx`](crate::Tx) is part of the
//! caller's transaction. Every read of a tenant's rows takes the namespace and returns no rows of other namespaces.

pub mod approval;
pub mod delivery;
mod error;
pub mod event_log;
pub mod execution_class;
pub mod explain_facts;
pub mod input;
pub mod metrics;
pub mod page;
pub mod pending_work;
pub mod records;
pub mod resource_set;
pub mod retention;
pub mod run;
pub mod run_history;
pub mod session;
pub mod shared_state;
pub mod step;
pub mod task;
pub mod task_log;

pub use error::QueryError;
pub use page::Page;
