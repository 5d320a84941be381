//! Tables that decide which run starts when: execution classes, limits, timers, schedules, workers.

pub mod concurrency_limit;
pub mod execution_class;
pub mod process_start;
pub mod run_deadline;
pub mod schedule;
pub mod timer;
pub mod worker;
