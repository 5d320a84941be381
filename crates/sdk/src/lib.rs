//! Agents in Rust: tools, streaming, approvals, typed output, hooks and sessions.
//!
//! ```
//! use provost::testing::ScriptedModel;
//! use provost::{Agent, tool};
//! use serde_json::json;
//!
//! /// Adds two numbers.
//! #[tool]
//! async fn add(
//!     /// The first number
//!     a: f64,
//!     /// The second number
//!     b: f64,
//! ) -> f64 {
//!     a + b
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! // A scripted model replaces a real one, such as `OpenAi::from_env("gpt-5-mini")?`.
//! let model = ScriptedModel::new().tool_call("add", json!({"a": 2, "b": 3})).text("It is 5.");
//!
//! let agent = Agent::builder("adder", model).instructions("You add numbers.").tool(add).build()?;
//! let result = agent.run("What is 2 + 3?").await?;
//!
//! assert_eq!(result.output, "It is 5.");
//! assert_eq!((result.turns, result.tool_calls), (2, 1));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Overview
//!
//! The root contains the types of nearly every program. Everything else is in a module:
//!
//! | task | see |
//! |---|---|
//! | call a model of a vendor | [`providers`] |
//! | configure, route, batch and embed | [`model`], [`ModelSettings`] |
//! | define tools | [`macro@tool`], [`tool_fn`], [`ToolContext`], [`tools`] |
//! | stream the events of a run | [`RunBuilder::stream`], [`EventKind`], [`event`] |
//! | steer a live run | [`RunHandle`] |
//! | require approvals | [`ApprovalMode`], [`SuspendedRun`] |
//! | get typed output | [`AgentBuilder::output`] |
//! | limit a run | [`Limits`], [`OnLimit`] |
//! | combine agents | [`agent::Subagent`], [`agent::FanOut`], [`agent::Handoff`], [`agent::Team`] |
//! | observe and change runs | [`hook::Hook`] |
//! | store conversations | [`session`] |
//! | fit conversations into the context window | [`context`] |
//! | test without a network | [`testing`] |
//! | run agents in your own engine | [`host`] |

pub mod agent;
pub mod event;
pub mod hook;
pub mod host;
pub mod message;
pub mod model;
pub mod providers;
pub mod session;
pub mod testing;
pub mod tools;

pub use provost_agent::{
    Agent, AgentBuilder, ApprovalMode, BuildError, Error, OnLimit, RunBuilder, RunHandle,
    RunOutcome, RunResult, RunStream, SuspendedRun, context,
};
pub use provost_core::usage::limits;
pub use provost_core::{
    ApprovalDecision, ApprovalRequest, ContentPart, Event, EventKind, Limits, Message, Money,
    Secret, Usage,
};
pub use provost_macros::tool;
pub use provost_model::{ChatModel, ModelSettings};
pub use provost_tool::{Dep, Tool, ToolContext, ToolError, ToolOutput, Toolset, tool_fn};

/// MCP servers as toolsets (feature `mcp`).
#[cfg(feature = "mcp")]
pub use provost_mcp as mcp;
/// Long-term memory about users, across conversations (feature `memory`).
#[cfg(feature = "memory")]
pub use provost_memory as memory;
/// Traces and metrics of runs, exported with OpenTelemetry (feature `otel`).
#[cfg(feature = "otel")]
pub use provost_otel as telemetry;

/// Items that the expansion of [`macro@tool`] names. Not part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use ::schemars;
    pub use ::serde;
    pub use provost_tool::{
        DependencyType, EffectClass, FnTool, IntoToolOutput, Permit, RequiresApproval, Tool,
        ToolContext, ToolError, ToolFuture, ToolOutput, ToolSpec,
    };
}

/// The pages of `docs/` whose examples are compiled and run with the documentation of this crate.
// The fences name files, `file=PATH`, for `scripts/conformance docs`.
#[allow(rustdoc::invalid_codeblock_attributes)]
#[cfg(doctest)]
mod docs {
    #[doc = include_str!("../../../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/explanation/context-management.md")]
    mod context_management {}
    #[doc = include_str!("../../../docs/coming-from/joakimcarlsson-ai.md")]
    mod joakimcarlsson_ai {}
    #[doc = include_str!("../../../docs/how-to/connect-a-model.md")]
    mod connect_a_model {}
    #[doc = include_str!("../../../docs/how-to/delegate-to-other-agents.md")]
    mod delegate_to_other_agents {}
    #[doc = include_str!("../../../docs/how-to/fall-back-between-models.md")]
    mod fall_back_between_models {}
    #[doc = include_str!("../../../docs/how-to/keep-sessions.md")]
    mod keep_sessions {}
    #[doc = include_str!("../../../docs/how-to/limit-spending.md")]
    mod limit_spending {}
    #[doc = include_str!("../../../docs/how-to/remember-users.md")]
    mod remember_users {}
    #[doc = include_str!("../../../docs/how-to/require-approval.md")]
    mod require_approval {}
    #[doc = include_str!("../../../docs/how-to/test-an-agent.md")]
    mod test_an_agent {}
    #[doc = include_str!("../../../docs/how-to/use-mcp-servers.md")]
    mod use_mcp_servers {}
    #[doc = include_str!("../../../docs/reference/toolsets.md")]
    mod toolsets {}
    #[doc = include_str!("../../../docs/tutorials/first-agent.md")]
    mod first_agent {}
    #[doc = include_str!("../../../docs/reference/events.md")]
    mod events {}
    #[doc = include_str!("../../../docs/reference/hooks.md")]
    mod hooks {}
    #[doc = include_str!("../../../docs/reference/models.md")]
    mod models {}
    #[doc = include_str!("../../../docs/reference/templates.md")]
    mod templates {}
}
