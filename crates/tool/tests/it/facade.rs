//! Stands in for the facade crate: what code written by `#[tool]` refers to.

pub(crate) mod __private {
    pub(crate) use ::schemars;
    pub(crate) use ::serde;
    pub(crate) use provost_tool::{
        DependencyType, FnTool, IntoToolOutput, Permit, RequiresApproval, Tool, ToolContext,
        ToolError, ToolFuture, ToolOutput, ToolSpec,
    };
}
