//! Resources: what an operator declares, as data with one normal form.
//!
//! A manifest is read strictly: an unknown field is an error with its place, and what is not said gets its default here.

mod span;
mod tool;

pub use span::Span;
pub use tool::{
    A2aSpec, AuthProfile, GrpcEncoding, GrpcSpec, HttpMethod, HttpSpec, IsolationMode, Jitter,
    McpRef, OperationClass, ResourceError, RetrySpec, RiskLevel, RuntimeSpec, ToolAuth,
    ToolResource, ToolType,
};
