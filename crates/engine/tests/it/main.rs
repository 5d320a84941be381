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
mod cluster;
mod concurrency;
mod conversations;
mod deliveries;
mod drain;
mod ends;
mod explain;
mod extra_prompt;
mod forks;
mod governed;
mod harness;
mod inputs;
mod journal;
mod leases;
mod ledger;
mod lists;
mod live;
mod log;
mod memories;
mod metrics;
mod retention;
mod retry;
mod schedules;
mod sessions;
mod shared_state;
mod simulation;
mod snapshots;
mod subagents;
mod subagents_abandoned;
mod subagents_crash;
mod subagents_more;
mod team_crash;
mod teams_interrupted;
mod teams_killed;
mod tokens;
mod webhooks;
mod worker_crash;
