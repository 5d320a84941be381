//! Resources: agents, tools, policies, roles, rules and MCP servers that an operator declares, in one normal form.
//!
//! Manifests are read strictly: an unknown field is an error with its path, and this module sets all defaults.

mod agent;
mod agent_policy;
mod manifest;
mod mcp_server;
mod permission;
mod role;
mod span;
mod text;
mod tool;

pub use agent::{
    ALL_TOOLS, AgentShell, AgentSpec, AgentTimeouts, DEFAULT_RUNNER, DeclaredAgent, FileAccess,
    ModelEndpoint, ShellAccess, ShellApproval, ShellSettings, ShellWorkspace,
    TERMINAL_AGENT_PREFIX, check_agent_name, workspace_name,
};
pub use agent_policy::AgentPolicy;
pub use manifest::{API_VERSION, NamespacedTool, Resource};
pub use mcp_server::{McpFilter, McpIsolation, McpServerResource, McpTransport, McpVariable};
pub use permission::{
    ApplyMode, Approvers, MatchMode, OperationMatch, OperationRule, OperationVerdict,
    ToolPermission, is_same_principal,
};
pub use role::AgentRole;
pub use span::HumanDuration;
pub use tool::{
    A2aSpec, AuthProfile, CliOutput, CliSpec, CliWorkspace, GrpcEncoding, GrpcSpec, HttpMethod,
    HttpSpec, IsolationMode, McpRef, OperationClass, ProcessLimits, ResourceError, RetrySpec,
    RiskLevel, RuntimeSpec, ToolAuth, ToolResource, ToolRetryJitter, ToolType, WasmSpec,
};

#[cfg(test)]
mod tests;
