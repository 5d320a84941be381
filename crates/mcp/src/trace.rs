//! Trace context of a call.

/// W3C trace context of a run. Give it to a run with `.dep(..)`, and every MCP call sends it in `_meta`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceContext {
    /// `00-<trace id>-<span id>-<flags>`.
    pub traceparent: String,
    /// Vendor-specific state.
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Creates a trace context from a `traceparent` header.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), tracestate: None }
    }
}
