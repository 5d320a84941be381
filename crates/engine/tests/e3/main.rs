//! Tests under construction.
#![allow(dead_code, reason = "support is shared with another binary")]
#[path = "../it/approvals.rs"]
mod approvals;
#[path = "../it/approvals_more.rs"]
mod approvals_more;
#[path = "../it/cancel.rs"]
mod cancel;
#[path = "../it/classes.rs"]
mod classes;
#[path = "../it/clocks.rs"]
mod clocks;
#[path = "../it/drain.rs"]
mod drain;
#[path = "../it/ends.rs"]
mod ends;
#[path = "../it/house.rs"]
mod house;
#[path = "../it/leases.rs"]
mod leases;
#[path = "../it/retention.rs"]
mod retention;
#[path = "../it/retry.rs"]
mod retry;
#[path = "../it/stage.rs"]
mod stage;
