//! Temporary: a subset of the tests while others are being written.
#![allow(dead_code)]
#[path = "it/children.rs"]
mod children;
#[path = "it/stage.rs"]
mod stage;
#[path = "it/deaths.rs"]
mod deaths;
#[path = "it/deliveries.rs"]
mod deliveries;
#[path = "it/schedules.rs"]
mod schedules;
#[path = "it/budgets.rs"]
mod budgets;
#[path = "it/forks.rs"]
mod forks;
#[path = "it/snapshots.rs"]
mod snapshots;
#[path = "it/children_killed.rs"]
mod children_killed;
