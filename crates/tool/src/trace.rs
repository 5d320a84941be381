//! Trace contexts that leave and enter the process, and content of spans, for code that must not know the exporter.
//!
//! The exporter is part of the `tracing` subscriber that the span belongs to. Without one there is no trace context, and content
//! is never formatted.

use tracing::{Span, Subscriber};
use tracing_subscriber::Layer;

/// What an exporter of spans can do: a layer that a subscriber has beside the exporter, and that is found through its spans.
#[derive(Debug, Clone, Copy)]
pub struct TraceLink {
    /// The W3C `traceparent` of a span; `None` if the span is not exported.
    pub traceparent: fn(&Span) -> Option<String>,
    /// Puts a span, before it is entered, below a span elsewhere. False if that cannot be done.
    pub adopt: fn(&Span, &str) -> bool,
    /// Records content with a span, if the exporter was asked to; else the value is never made.
    pub content: fn(&Span, &'static str, &dyn Fn() -> String),
}

impl<S: Subscriber> Layer<S> for TraceLink {}

/// The exporter of a span, if its subscriber has one and takes the span.
fn link(span: &Span) -> Option<TraceLink> {
    span.with_subscriber(|(_, subscriber)| subscriber.downcast_ref::<TraceLink>().copied())
        .flatten()
}

/// The W3C `traceparent` of the current span, for whoever goes on with the trace elsewhere.
pub fn current() -> Option<String> {
    let span = Span::current();
    (link(&span)?.traceparent)(&span)
}

/// Puts a span, before it is entered, below the span that a `traceparent` names. False if nothing exports it or the
/// text is no `traceparent`.
pub fn adopt(span: &Span, traceparent: &str) -> bool {
    link(span).is_some_and(|link| (link.adopt)(span, traceparent))
}

/// Records content with a span, if it is exported and that was asked for.
pub fn content(span: &Span, name: &'static str, value: impl Fn() -> String) {
    if let Some(link) = link(span) {
        (link.content)(span, name, &value);
    }
}
