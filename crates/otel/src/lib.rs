//! OpenTelemetry export for Provost: spans and metrics of runs by the GenAI semantic conventions, over OTLP/HTTP.
//!
//! The spans are the `tracing` spans of `provost-agent`: `invoke_agent` > `chat` and `execute_tool` > `invoke_agent`
//! of a subagent. [`Telemetry::layer`] is a subscriber layer that exports the spans, derives metrics from them and
//! propagates the trace to other processes. Telemetry never fails a run. Prompts, responses, arguments and results
//! are exported only if content capture is enabled.
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
//!     .sample_ratio(0.1)
//!     .build()?;
//! let subscriber = tracing_subscriber::registry().with(telemetry.layer());
//! tracing::subscriber::set_global_default(subscriber)?;
//!
//! // Run agents. Before the program exits:
//! telemetry.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod error;
mod export;
mod http_client;
mod metrics;
mod propagate;
mod telemetry;

pub use builder::TelemetryBuilder;
pub use error::Error;
pub use propagate::{current_traceparent, set_remote_parent};
pub use telemetry::Telemetry;

/// The documentation page about telemetry, whose examples are tested with this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/trace-with-opentelemetry.md")]
struct Page;
