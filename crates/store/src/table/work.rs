//! Tables of the workload: sessions, tasks, runs and the records of a run.

pub mod attempt;
pub mod input;
pub mod journal;
pub mod message;
pub mod run;
pub mod run_dependency;
pub mod run_event;
pub mod run_join;
pub mod run_snapshot;
pub mod run_state;
pub mod run_step;
pub mod session;
pub mod session_entry;
pub mod stored_message;
pub mod task;
