//! Temporary: a subset of the tests while others are being written.
#![allow(dead_code)]
#[path = "it/budgets.rs"]
mod budgets;
#[path = "it/children.rs"]
mod children;
#[path = "it/children_killed.rs"]
mod children_killed;
#[path = "it/deaths.rs"]
mod deaths;
#[path = "it/deliveries.rs"]
mod deliveries;
#[path = "it/forks.rs"]
mod forks;
#[path = "it/schedules.rs"]
mod schedules;
#[path = "it/snapshots.rs"]
mod snapshots;
#[path = "it/stage.rs"]
mod stage;
