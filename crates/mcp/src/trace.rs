//! The trace that a call belongs to.

/// The W3C trace context of a run. Give it to a run with `.dep(..)`, and every MCP call carries it in `_meta`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceContext {
    /// `00-<trace id>-<span id>-<flags>`.
    pub traceparent: String,
    /// What vendors add.
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// From its header.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), tracestate: None }
    }
}
