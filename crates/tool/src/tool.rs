//! The trait of all tools.

pub(crate) mod error;
pub(crate) mod function;
pub(crate) mod output;
pub(crate) mod schema;
pub(crate) mod spec;

use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use crate::{Permit, ToolContext, ToolError, ToolOutput, ToolSpec};

/// Future of a tool call.
pub type ToolFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// A tool that an agent can call.
///
/// Most tools are defined with `#[tool]` or [`tool_fn`](crate::tool_fn). Implement this trait for tools whose
/// definition is only known at run time.
pub trait Tool: Send + Sync + 'static {
    /// Returns the specification of the tool.
    fn spec(&self) -> &ToolSpec;

    /// Starts a call. The permit holds the validated arguments and proves that the guard authorized the call.
    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture;

    /// Returns whether a call with this effect key was executed. Recovery asks this for calls that a crash interrupted,
    /// if the effect of the tool is [provable](provost_core::recovery::EffectClass::Provable). The default is that it
    /// is unknown.
    fn probe(&self, _key: EffectKey, _arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        Box::pin(async { ProbeOutcome::Unknown })
    }
}

/// Outcome of a call that a crash interrupted.
#[derive(Debug, Clone, PartialEq)]
pub enum ProbeOutcome {
    /// The call was executed and had this output.
    Completed(ToolOutput),
    /// The call was not executed.
    NotExecuted,
    /// The tool cannot determine the outcome.
    Unknown,
}
