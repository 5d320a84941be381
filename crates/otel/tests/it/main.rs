//! Telemetry through its door: agents run, and what reaches an OTLP receiver is decoded.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod content;
mod metrics;
mod receiver;
mod setup;
mod spans;
mod support;
