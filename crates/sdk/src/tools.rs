//! Toolsets, tool specifications, the guard with its rules, and artifacts.
//!
//! ```
//! use provost::Agent;
//! use provost::testing::ScriptedModel;
//! use provost::tools::RuleDecision;
//!
//! let agent = Agent::builder("clerk", ScriptedModel::new())
//!     .guard_rule(|input| match input.call.name.as_str() {
//!         "delete" => RuleDecision::Deny("deleting is not allowed".to_owned()),
//!         _ => RuleDecision::Allow,
//!     })
//!     .build()?;
//! # drop(agent);
//! # Ok::<_, provost::BuildError>(())
//! ```
//!
//! - [`ToolsetExt`]: filters, renames, searches and combines toolsets.
//! - [`RuleDecision`]: allows, denies or requires approval of a call; see
//!   [`AgentBuilder::guard_rule`](crate::AgentBuilder::guard_rule).
//! - [`GuardServices`]: policy, redaction, audit and metering of every call.
//! - [`ArtifactStore`]: stores the complete output of a tool when the model receives a truncated one.

pub use provost_tool::{
    ApprovalRequiredToolset, CombinedToolset, ConditionalApprovalToolset, FilteredToolset,
    FnToolset, MutableToolset, PrefixedToolset, RenamedToolset, SearchToolset, StaticToolset,
    ToolsetError, ToolsetExt, ToolsetFuture, toolset_fn,
};
pub use provost_tool::{
    Artifact, ArtifactStore, ArtifactWriter, FileArtifactStore, OutputCollector,
};
pub use provost_tool::{
    AuditRecord, AuditSink, CallOrigin, Guard, GuardDecision, GuardServices, Permit, RuleDecision,
    RuleInput, UsageRecord, UsageSink,
};
pub use provost_tool::{
    DependencyType, Deps, EffectClass, FnTool, IntoToolOutput, ProbeOutcome, RequiresApproval,
    State, StateScopes, ToolFuture, ToolSpec, ToolSpecError,
};
