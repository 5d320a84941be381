//! Configured telemetry: the subscriber layer, flush and shutdown.

use std::fmt;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::registry::LookupSpan;

use crate::metrics::MetricsLayer;
use crate::propagate::{self, ContentCapture};
use crate::{Error, TelemetryBuilder};

/// Name of the instrumentation scope.
const SCOPE: &str = "provost";

/// Export of spans and metrics. Clones share the exporters.
#[derive(Clone, Default)]
pub struct Telemetry {
    spans: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    content: bool,
}

impl Telemetry {
    /// Returns a builder that reads the environment.
    pub fn builder() -> TelemetryBuilder {
        TelemetryBuilder::default()
    }

    pub(crate) fn new(
        spans: Option<SdkTracerProvider>,
        metrics: Option<SdkMeterProvider>,
        content: bool,
    ) -> Self {
        Self { spans, metrics, content }
    }

    /// Returns true if spans or metrics are exported. False if no endpoint is configured or the environment disables
    /// telemetry.
    pub fn is_active(&self) -> bool {
        self.spans.is_some() || self.metrics.is_some()
    }

    /// Returns true if prompts, responses, arguments and results are exported with the spans.
    pub fn captures_content(&self) -> bool {
        self.content
    }

    /// Returns the subscriber layer that exports spans and records metrics.
    ///
    /// The layer processes spans of level info and above. It ignores events, so logs are not exported. A filter on
    /// the whole subscriber also hides spans from this layer; use filters on the other layers instead.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + 'static
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let scope =
            || InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build();
        let spans = self.spans.as_ref().map(|spans| {
            tracing_opentelemetry::layer()
                .with_tracer(spans.tracer_with_scope(scope()))
                // Threads and source lines are not useful for traces of agents.
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_level(false)
                .with_tracked_inactivity(false)
        });
        let metrics = self.metrics.as_ref();
        let metrics = metrics.map(|metrics| MetricsLayer::new(&metrics.meter_with_scope(scope())));
        self.is_active().then(|| {
            let capture = ContentCapture(self.content && spans.is_some());
            let is_exported: fn(&Metadata<'_>) -> bool =
                |metadata| metadata.is_span() && *metadata.level() <= Level::INFO;
            let filter = FilterFn::new(is_exported).with_max_level_hint(LevelFilter::INFO);
            propagate::TRACE_EXPORTER
                .and_then(capture)
                .and_then(spans)
                .and_then(metrics)
                .with_filter(filter)
        })
    }

    /// Exports all queued spans and metrics. Returns the first error, or [`Error::Timeout`].
    pub async fn flush(&self, timeout: Duration) -> Result<(), Error> {
        let Self { spans, metrics, .. } = self.clone();
        let flush = move || {
            let spans = spans.map_or(Ok(()), |spans| spans.force_flush());
            let metrics = metrics.map_or(Ok(()), |metrics| metrics.force_flush());
            spans.and(metrics)
        };
        run_blocking(timeout, flush).await
    }

    /// Exports all queued spans and metrics, and closes the exporters. Without this call at the end of a program, the
    /// last spans are lost. Returns the first error.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn shutdown(&self, timeout: Duration) -> Result<(), Error> {
        let Self { spans, metrics, .. } = self.clone();
        let shutdown = move || {
            let spans = spans.map_or(Ok(()), |spans| spans.shutdown_with_timeout(timeout));
            let metrics = metrics.map_or(Ok(()), |metrics| metrics.shutdown_with_timeout(timeout));
            spans.and(metrics)
        };
        run_blocking(timeout, shutdown).await
    }
}

/// Runs a blocking function on a blocking thread. Returns [`Error::Timeout`] after the timeout, but does not stop the
/// function.
async fn run_blocking(
    timeout: Duration,
    work: impl FnOnce() -> OTelSdkResult + Send + 'static,
) -> Result<(), Error> {
    let outcome = tokio::time::timeout(timeout, tokio::task::spawn_blocking(work)).await;
    let Ok(outcome) = outcome else { return Err(Error::Timeout) };
    let outcome =
        outcome.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())));
    outcome.map_err(|error| match error {
        OTelSdkError::AlreadyShutdown => Error::Closed,
        OTelSdkError::Timeout(_) => Error::Timeout,
        OTelSdkError::InternalFailure(problem) => Error::ExportFailed(problem),
    })
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The providers may contain headers with keys.
        f.debug_struct("Telemetry")
            .field("spans", &self.spans.is_some())
            .field("metrics", &self.metrics.is_some())
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
