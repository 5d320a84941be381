//! The trait every tool implements.

pub(crate) mod error;
pub(crate) mod function;
pub(crate) mod output;
pub(crate) mod schema;
pub(crate) mod spec;

use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use crate::{Permit, ToolCx, ToolError, ToolOutput, ToolSpec};

/// What a running tool is.
pub type ToolFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;

/// Something an agent can do.
///
/// Most tools are made by `#[tool]` or [`tool_fn`](crate::tool_fn); implement this by hand for tools whose shape is known only
/// at run time.
pub trait Tool: Send + Sync + 'static {
    /// What it is and how it may be called.
    fn spec(&self) -> &ToolSpec;

    /// Starts it. The permit holds the checked arguments and proves that the call was allowed.
    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture;

    /// Finds out whether a call with this effect key has happened. Asked only of a tool whose effect is
    /// [provable](provost_core::recovery::EffectClass::Provable), about a call that a crash cut off.
    fn probe(&self, _key: EffectKey, _arguments: Value) -> BoxFuture<'static, Probe> {
        Box::pin(async { Probe::Unsure })
    }
}

/// What became of a call that a crash cut off.
#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    /// It happened, and this came of it.
    Done(ToolOutput),
    /// It did not happen.
    NotDone,
    /// Nobody can say.
    Unsure,
}
