//! The seam to whoever exports spans: trace contexts that leave and enter the process, and content.
//!
//! Nothing here knows an exporter. Without one there is no trace context, and content is not even put into words.

use std::sync::OnceLock;

use tracing::Span;

/// What an exporter of spans can do.
#[derive(Debug, Clone, Copy)]
pub struct TraceLink {
    /// The W3C `traceparent` of a span; `None` if the span is not exported.
    pub traceparent: fn(&Span) -> Option<String>,
    /// Puts a span, before it is entered, below a span elsewhere. False if that cannot be done.
    pub adopt: fn(&Span, &str) -> bool,
    /// Records content with a span, if the exporter was asked to; else the value is never made.
    pub content: fn(&Span, &'static str, &dyn Fn() -> String),
}

/// Process-wide like the subscribers that its functions look at; it has no state of its own.
static LINK: OnceLock<TraceLink> = OnceLock::new();

/// Makes an exporter known. The first one stays.
pub fn connect(link: TraceLink) {
    LINK.get_or_init(|| link);
}

/// The W3C `traceparent` of the current span, for whoever goes on with the trace elsewhere.
pub fn current() -> Option<String> {
    LINK.get().and_then(|link| (link.traceparent)(&Span::current()))
}

/// Puts a span, before it is entered, below the span that a `traceparent` names. False if nothing exports it or the
/// text is no `traceparent`.
pub fn adopt(span: &Span, traceparent: &str) -> bool {
    LINK.get().is_some_and(|link| (link.adopt)(span, traceparent))
}

/// Records content with a span, if it is exported and that was asked for.
pub fn content(span: &Span, name: &'static str, value: impl Fn() -> String) {
    if let Some(link) = LINK.get()
        && !span.is_disabled()
    {
        (link.content)(span, name, &value);
    }
}
