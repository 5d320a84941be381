//! Integration tests: agents run, and an OTLP receiver decodes the exported data.

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
