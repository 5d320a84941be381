//! Traces that leave and enter the process, and content: what the agents ask of whoever exports their spans.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use provost_agent::trace::TraceLink;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;

/// The name of the W3C header.
const TRACEPARENT: &str = "traceparent";

/// What `provost-agent` can ask for.
pub(crate) const LINK: TraceLink =
    TraceLink { traceparent, adopt: set_remote_parent, content: record };

/// The W3C `traceparent` of the current span, for whoever goes on with the trace in another process. `None` outside of
/// every span, and where no [`Telemetry`](crate::Telemetry) exports the span.
pub fn current_traceparent() -> Option<String> {
    traceparent(&Span::current())
}

/// Puts a span below the span in another process that a W3C `traceparent` names. Must come before the span is entered.
/// False, with nothing changed, if the text is no `traceparent` or the span is not exported.
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
    // Not the current context: a text that is no parent must not leave the span below something else.
    let parent = TraceContextPropagator::new()
        .extract_with_context(&opentelemetry::Context::new(), &carrier);
    parent.span().span_context().is_valid() && span.set_parent(parent).is_ok()
}

fn traceparent(span: &Span) -> Option<String> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.remove(TRACEPARENT)
}

fn record(span: &Span, name: &'static str, value: &dyn Fn() -> String) {
    let wanted = span.with_subscriber(|(_, subscriber)| {
        subscriber.downcast_ref::<Capture>().is_some_and(|capture| capture.0)
    });
    if wanted == Some(true) {
        span.set_attribute(name, value());
    }
}

/// Says whether content is exported: each subscriber has its own answer.
pub(crate) struct Capture(pub(crate) bool);

impl<S: Subscriber> Layer<S> for Capture {}
