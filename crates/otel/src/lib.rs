//! OpenTelemetry for Provost: the spans of runs and what they cost, by the GenAI conventions, sent by OTLP over HTTP.
//!
//! The spans are the `tracing` spans of `provost-agent`: `invoke_agent` > `chat` and `execute_tool` > `invoke_agent` of a
//! child. This crate is one layer for a subscriber that exports them, measures them, and carries the trace into other
//! processes. Nothing here can fail a run, and no prompt, answer or argument leaves the process unless it is asked for.
//!
//! ```
//! use std::time::Duration;
//!
//! use provost_otel::Telemetry;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let telemetry = Telemetry::builder()
//!     .otlp_http("http://127.0.0.1:4318")
//!     .service("billing-agent", env!("CARGO_PKG_VERSION"))
//!     .share(0.1)
//!     .build()?;
//! let subscriber = tracing_subscriber::registry().with(telemetry.layer());
//! tracing::subscriber::set_global_default(subscriber)?;
//!
//! // Run agents, and before the program ends:
//! telemetry.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod error;
mod export;
mod measure;
mod propagate;
mod send;
mod telemetry;

pub use builder::Builder;
pub use error::Error;
pub use propagate::{current_traceparent, set_remote_parent};
pub use telemetry::Telemetry;

/// The page about telemetry, so that its examples are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/telemetry.md")]
struct Page;
