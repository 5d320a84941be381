//! Telemetry that was set up: a layer for a subscriber, and a way to the end.

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

use crate::measure::Measure;
use crate::propagate::{self, Capture};
use crate::{Builder, Error};

/// The name under which spans and metrics are recorded.
const SCOPE: &str = "provost";

/// Where spans and metrics go. Cheap to clone: clones share everything.
#[derive(Clone, Default)]
pub struct Telemetry {
    spans: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    content: bool,
}

impl Telemetry {
    /// Begins with what the environment says.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        spans: Option<SdkTracerProvider>,
        metrics: Option<SdkMeterProvider>,
        content: bool,
    ) -> Self {
        Self { spans, metrics, content }
    }

    /// True if something is sent. It is not where nobody said where to, or the environment disables it.
    pub fn is_active(&self) -> bool {
        self.spans.is_some() || self.metrics.is_some()
    }

    /// True if prompts, answers, arguments and results are sent with the spans.
    pub fn captures_content(&self) -> bool {
        self.content
    }

    /// The layer that exports and measures. It takes spans of level info and above, and no events: what a program logs
    /// stays where it is. A filter on the whole subscriber that hides these spans hides them here too, so give filters to
    /// the other layers.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + 'static
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let scope =
            || InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build();
        let spans = self.spans.as_ref().map(|spans| {
            tracing_opentelemetry::layer()
                .with_tracer(spans.tracer_with_scope(scope()))
                // What `tracing` knows of threads and source lines says nothing about an agent.
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_level(false)
                .with_tracked_inactivity(false)
        });
        let measure = self.metrics.as_ref();
        let measure = measure.map(|metrics| Measure::new(&metrics.meter_with_scope(scope())));
        self.is_active().then(|| {
            let capture = Capture(self.content && spans.is_some());
            let taken: fn(&Metadata<'_>) -> bool =
                |metadata| metadata.is_span() && *metadata.level() <= Level::INFO;
            let taken = FilterFn::new(taken).with_max_level_hint(LevelFilter::INFO);
            propagate::LINK.and_then(capture).and_then(spans).and_then(measure).with_filter(taken)
        })
    }

    /// Sends what is waiting.
    pub async fn flush(&self, timeout: Duration) -> Result<(), Error> {
        let Self { spans, metrics, .. } = self.clone();
        let flush = move || {
            let spans = spans.map_or(Ok(()), |spans| spans.force_flush());
            let metrics = metrics.map_or(Ok(()), |metrics| metrics.force_flush());
            spans.and(metrics)
        };
        within(timeout, flush).await
    }

    /// Sends what is waiting, and nothing after that. Must be called before a program ends, else the last spans are lost.
    /// Returns the first error. Needs a tokio runtime around it.
    pub async fn shutdown(&self, timeout: Duration) -> Result<(), Error> {
        let Self { spans, metrics, .. } = self.clone();
        let shutdown = move || {
            let spans = spans.map_or(Ok(()), |spans| spans.shutdown_with_timeout(timeout));
            let metrics = metrics.map_or(Ok(()), |metrics| metrics.shutdown_with_timeout(timeout));
            spans.and(metrics)
        };
        within(timeout, shutdown).await
    }
}

/// Waits for something that blocks, but not for longer than this.
async fn within(
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
        OTelSdkError::InternalFailure(problem) => Error::Unsent(problem),
    })
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What lies beneath may hold headers with keys.
        f.debug_struct("Telemetry")
            .field("spans", &self.spans.is_some())
            .field("metrics", &self.metrics.is_some())
            .field("content", &self.content)
            .finish_non_exhaustive()
    }
}
