//! Resources: what an operator declares, as data with one normal form.
//!
//! A manifest is read strictly: an unknown field is an error with its place, and what is not said gets its default here.

mod agent;
mod agent_policy;
mod manifest;
mod mcp_server;
mod permission;
mod role;
mod span;
mod text;
mod tool;

pub use agent::{AgentResource, EVERY_TOOL};
pub use agent_policy::AgentPolicy;
pub use manifest::{API_VERSION, DeclaredTool, Resource};
pub use mcp_server::{McpFilter, McpIsolation, McpServerResource, McpTransport, McpVariable};
pub use permission::{
    ApplyMode, Approvers, MatchMode, OperationMatch, OperationRule, OperationVerdict,
    ToolPermission, is_same_principal,
};
pub use role::AgentRole;
pub use span::Span;
pub use tool::{
    A2aSpec, AuthProfile, Bounds, CliOutput, CliSpec, CliWorkspace, GrpcEncoding, GrpcSpec,
    HttpMethod, HttpSpec, IsolationMode, Jitter, McpRef, OperationClass, ResourceError, RetrySpec,
    RiskLevel, RuntimeSpec, ToolAuth, ToolResource, ToolType, WasmSpec,
};

#[cfg(test)]
mod tests;
