//! Agents in Rust: tools, streaming, approvals, typed output, hooks and sessions.
//!
//! ```
//! use provost::testing::{ScriptedModel, call, text};
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
//! // A scripted model replaces a real one here. `OpenAi::from_env("gpt-5-mini")?` creates a real one.
//! let model = ScriptedModel::new().turn(call("add", json!({"a": 2, "b": 3}))).turn(text("It is 5."));
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
//! | task | see |
//! |---|---|
//! | call a model | [`OpenAi`], [`Anthropic`], [`Gemini`], [`Ollama`], [`Bedrock`], [`AzureOpenAi`], [`Providers`], [`openai_compatible`] |
//! | define tools | [`macro@tool`], [`tool_fn`], [`ToolCx`] |
//! | stream the events of a run | [`RunBuilder::stream`], [`EventKind`] |
//! | steer a live run | [`RunHandle`] |
//! | require approvals | [`ApprovalMode`], [`SuspendedRun`] |
//! | get typed output | [`AgentBuilder::output`] |
//! | limit a run | [`Limits`], [`OnLimit`] |
//! | combine agents | [`AgentBuilder::subagent`], [`AgentBuilder::fan_out`], [`AgentBuilder::handoff`], [`Team`] |
//! | observe and change runs | [`hook::Hook`] |
//! | store conversations | [`session`] |
//! | fit conversations into the context window | [`context`] |
//! | test without a network | [`testing`] |

pub use provost_agent::{
    Agent, AgentBuilder, AgentRef, ApprovalMode, BuildError, ContextPreview, DeferredAgent, Error,
    FanOut, Handoff, HistoryPolicy, HookInheritance, LimitContext, LimitDecision, OnLimit,
    RunBuilder, RunHandle, RunHandleError, RunOutcome, RunResult, RunStream, Subagent,
    SuspendedRun, SuspendedRunError, Team, UserInput, context, hook, instructions, run, subagent,
    team,
};
pub use provost_core::usage::limits;
pub use provost_core::{
    AgentHandoff, AgentUsage, ApprovalDecision, ApprovalId, ApprovalRequest, Compaction,
    ContentPart, Currency, Document, Env, ErrorInfo, ErrorKind, Event, EventKind, Image, LimitKind,
    LimitReached, Limits, MediaSource, Message, Money, Pricing, ProviderData, Reasoning, Role,
    RunId, RunSummary, Secret, StopReason, TeamMember, TeamMessage, Timestamp, ToolCall,
    ToolDefinition, ToolResult, ToolResultPart, Usage,
};
pub use provost_macros::tool;
pub use provost_model::{
    BatchJob, BatchRequest, Cassette, Chunking, Embedder, HashEmbedder, Player, Recorder,
    Redaction, Reranker, run_batch,
};
pub use provost_model::{
    BreakerPolicy, BudgetLedger, Delivery, Endpoint, FallbackRules, Limits as RateLimits,
    MemoryLedger, RoutedModel,
};
pub use provost_model::{Catalog, RetryPolicy};
pub use provost_model::{
    ChatModel, ChatRequest, Effort, Fold, ModelError, ModelErrorClass, ModelEvent, ModelInfo,
    ModelResponse, ModelStream, NativeOutput, OutputSchema, Settings, ToolChoice, complete,
};
pub use provost_provider::{
    Anthropic, AzureOpenAi, Bedrock, BuildError as ModelBuildError, Gemini, HttpModel,
    HttpModelBuilder, Ollama, OpenAi, Providers, ProvidersError, Timeouts, openai_compatible,
};
pub use provost_provider::{
    NativeBatch, cohere_embeddings, cohere_reranker, gemini_embeddings, ollama_embeddings,
    openai_embeddings, voyage_embeddings, voyage_reranker,
};
/// Conversations that outlive a run; in SQLite with the feature `sqlite-sessions`.
pub use provost_session as session;
pub use provost_session::shared_state;
pub use provost_tool::{
    Approval, ApprovalTools, CallFacts, CompositeTools, ConfirmedTools, Dep, DepType, Deps,
    DynamicTools, EffectClass, FilteredTools, FnTool, FnTools, Guard, IntoToolOutput, Permit,
    PrefixedTools, RenamedTools, Ruling, RunContext, Scopes, SearchableTools, SpecError, State,
    StaticTools, Tool, ToolCx, ToolError, ToolOutput, ToolSpec, Toolset, ToolsetError, ToolsetExt,
    tool_fn, toolset_fn,
};

/// MCP servers as toolsets (feature `mcp`).
#[cfg(feature = "mcp")]
pub use provost_mcp as mcp;
/// What agents remember of people (feature `memory`).
#[cfg(feature = "memory")]
pub use provost_memory as memory;
/// Spans and metrics of runs by OpenTelemetry (feature `otel`).
#[cfg(feature = "otel")]
pub use provost_otel as otel;

/// Testing agents without a network: a model that plays a script.
pub mod testing {
    pub use provost_model::{ScriptedModel, Turn, call, calls, fail, text};
}

/// What the expansion of [`macro@tool`] names. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use ::schemars;
    pub use ::serde;
    pub use provost_tool::{
        Approval, DepType, EffectClass, FnTool, IntoToolOutput, Permit, Tool, ToolCx, ToolError,
        ToolFuture, ToolOutput, ToolSpec,
    };
}

/// The pages of `docs/` whose examples are compiled and run with the documentation of this crate.
#[cfg(doctest)]
mod docs {
    #[doc = include_str!("../../../docs/coming-from/joakimcarlsson-ai.md")]
    mod joakimcarlsson_ai {}
    #[doc = include_str!("../../../docs/agents-together.md")]
    mod agents_together {}
    #[doc = include_str!("../../../docs/providers.md")]
    mod providers {}
    #[doc = include_str!("../../../docs/teams.md")]
    mod teams {}
    #[doc = include_str!("../../../docs/toolsets.md")]
    mod toolsets {}
    #[doc = include_str!("../../../docs/tutorial.md")]
    mod tutorial {}
    #[doc = include_str!("../../../docs/reference/events.md")]
    mod events {}
    #[doc = include_str!("../../../docs/reference/hooks.md")]
    mod hooks {}
    #[doc = include_str!("../../../docs/reference/models.md")]
    mod models {}
    #[doc = include_str!("../../../docs/reference/templates.md")]
    mod templates {}
}
