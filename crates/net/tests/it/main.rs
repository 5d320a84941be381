//! The client against real sockets: attackers, broken servers, and what is left when somebody goes.
//!
//! All is on this machine; names come from a table.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, also in what tests share, and prints what it is for"
)]

mod abuse;
mod attack;
mod leave;
mod peer;
mod pool;
