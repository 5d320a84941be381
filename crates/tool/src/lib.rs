//! Tools: what an agent can do besides talking.
//!
//! A [`Tool`] can only be called with a [`Permit`], and only the [`Guard`] makes permits: there is no other way to an effect.
//! Policies, sandboxes and further runtimes join behind the same door.

mod asking;
mod cx;
mod deps;
mod error;
mod function;
mod guard;
mod output;
mod runtime;
mod schema;
mod spec;
mod state;
mod tool;
mod toolset;
pub mod trace;

pub use cx::{Confirm, ToolCx, ToolCxParts};
pub use deps::{Dep, DepType, Deps};
pub use error::ToolError;
pub use function::{FnTool, tool_fn};
pub use guard::{CallFacts, Guard, Permit, Ruling, Verdict};
pub use output::{IntoToolOutput, ToolOutput};
pub use provost_core::work::EffectClass;
pub use runtime::{Attempt, Authenticator, Credentials, ToolRuntime};
pub use schema::{SchemaError, schema_of};
pub use spec::{Approval, SpecError, ToolSpec};
pub use state::State;
pub use tool::{Probe, Tool, ToolFuture};
pub use toolset::{
    ApprovalTools, CompositeTools, ConfirmedTools, DynamicTools, FilteredTools, FnTools,
    PrefixedTools, RenamedTools, SearchableTools, StaticTools, Toolset, ToolsetCx, ToolsetError,
    ToolsetExt, ToolsetFuture, toolset_fn,
};
