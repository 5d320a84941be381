//! Trace propagation between processes and content capture: the functions that `provost-agent` calls in the exporter.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use provost_agent::trace::TraceExporter;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;

/// Name of the W3C header.
const TRACEPARENT: &str = "traceparent";

/// The functions that `provost-agent` calls to propagate traces and to capture content.
pub(crate) const TRACE_EXPORTER: TraceExporter =
    TraceExporter { traceparent, set_parent: set_remote_parent, content: capture_content };

/// Returns the W3C `traceparent` of the current span, with which another process can continue the trace. `None`
/// outside of a span, or if no [`Telemetry`](crate::Telemetry) exports the span.
pub fn current_traceparent() -> Option<String> {
    traceparent(&Span::current())
}

/// Sets the parent of a span to the span of another process that a W3C `traceparent` names. Call it before the span
/// is entered.
///
/// Returns false and changes nothing if the text is not a valid `traceparent` or the span is not exported.
///
/// ```
/// use tracing::Instrument;
///
/// # async fn example(agent: provost_agent::Agent, traceparent: &str) -> Result<(), provost_agent::Error> {
/// let span = tracing::info_span!("attempt");
/// provost_otel::set_remote_parent(&span, traceparent);
/// agent.run("Go on.").into_future().instrument(span).await?;
/// # Ok(())
/// # }
/// ```
pub fn set_remote_parent(span: &Span, traceparent: &str) -> bool {
    let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    // An empty context, so that an invalid text does not make the current span the parent.
    let parent = TraceContextPropagator::new()
        .extract_with_context(&opentelemetry::Context::new(), &carrier);
    parent.span().span_context().is_valid() && span.set_parent(parent).is_ok()
}

/// Returns the W3C `traceparent` of a span. `None` if the span is not exported.
fn traceparent(span: &Span) -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove(TRACEPARENT)
}

/// Sets an attribute of a span to the result of `value`. Does nothing, and does not call `value`, unless content
/// capture is enabled.
fn capture_content(span: &Span, name: &'static str, value: &dyn Fn() -> String) {
    let is_enabled = span.with_subscriber(|(_, subscriber)| {
        subscriber.downcast_ref::<ContentCapture>().is_some_and(|capture| capture.0)
    });
    if is_enabled == Some(true) {
        span.set_attribute(name, value());
    }
}

/// Marker layer that states whether its subscriber exports content.
pub(crate) struct ContentCapture(pub(crate) bool);

impl<S: Subscriber> Layer<S> for ContentCapture {}
