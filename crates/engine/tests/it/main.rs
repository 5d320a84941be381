//! The engine against a real database.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod admission;
mod agents;
mod approvals;
mod approvals_more;
mod at_once;
mod basics;
mod budgets;
mod cancel;
mod cassettes;
mod children;
mod children_killed;
mod children_one_slot;
mod children_parked;
mod classes;
mod clocks;
mod crew_killed;
mod deaths;
mod delegates;
mod delegates_given_up;
mod delegates_killed;
mod delegates_more;
mod deliveries;
mod drain;
mod ends;
mod explain;
mod extra_prompt;
mod forks;
mod governed;
mod house;
mod inputs;
mod journal;
mod leases;
mod ledger;
mod lists;
mod live;
mod log;
mod memories;
mod retention;
mod retry;
mod schedules;
mod sessions;
mod shared_state;
mod simulation;
mod snapshots;
mod stage;
mod talk;
mod teams_interrupted;
mod teams_killed;
mod tokens;
mod vitals;
mod webhooks;
