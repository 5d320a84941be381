//! Trace context propagation and span content, independent of the exporter.
//!
//! The exporter is part of the `tracing` subscriber of a span. Without an exporter there is no trace context, and
//! content is never formatted.

use tracing::{Span, Subscriber};
use tracing_subscriber::Layer;

/// Functions of a span exporter. The subscriber holds them as a layer, so that a span finds them through its
/// subscriber.
#[derive(Debug, Clone, Copy)]
pub struct TraceExporter {
    /// Returns the W3C `traceparent` of a span. `None` if the span is not exported.
    pub traceparent: fn(&Span) -> Option<String>,
    /// Sets the remote parent of a span before it is entered. Returns false if that fails.
    pub set_parent: fn(&Span, &str) -> bool,
    /// Records content with a span. The value is only built if the exporter records content.
    pub content: fn(&Span, &'static str, &dyn Fn() -> String),
}

impl<S: Subscriber> Layer<S> for TraceExporter {}

/// Returns the exporter of a span. `None` if its subscriber has none.
fn exporter_of(span: &Span) -> Option<TraceExporter> {
    span.with_subscriber(|(_, subscriber)| subscriber.downcast_ref::<TraceExporter>().copied())
        .flatten()
}

/// Returns the W3C `traceparent` of the current span, to continue the trace in another process. `None` if the span is
/// not exported.
pub fn current_traceparent() -> Option<String> {
    let span = Span::current();
    (exporter_of(&span)?.traceparent)(&span)
}

/// Sets the remote parent of a span before it is entered. Returns false if the span is not exported or if `traceparent`
/// is invalid.
pub fn set_parent(span: &Span, traceparent: &str) -> bool {
    exporter_of(span).is_some_and(|link| (link.set_parent)(span, traceparent))
}

/// Records an attribute with content on a span. Does nothing, and does not call `value`, unless the exporter captures
/// content.
pub fn record_content(span: &Span, name: &'static str, value: impl Fn() -> String) {
    if let Some(link) = exporter_of(span) {
        (link.content)(span, name, &value);
    }
}
