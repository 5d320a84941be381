//! Tools: what an agent can do besides talking.
//!
//! A [`Tool`] can only be called with a [`Permit`], and only the [`Guard`] makes permits: there is no other way to an effect.
//! A [`Governor`] tells what the operator declared about a run, and if it cannot be read, no call goes through. A tool that
//! lives elsewhere is a [`GovernedTool`] behind the same door: its runtime is found by type and isolation, and each attempt has
//! its own deadline. [`Oversight`] takes secrets out of what tools say, keeps long outputs whole, and records every call.
//!
//! ```
//! use std::sync::Arc;
//!
//! use provost_core::ToolCall;
//! use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
//! use provost_tool::{Guard, Tool, ToolError, Verdict, tool_fn};
//!
//! // Nothing is declared about agent `clerk`, so it may not use a tool that changes something.
//! let subject = PolicySubject::new("default", "clerk");
//! let governance = CompiledPolicy::compile(PolicySources::new("r1", subject))?;
//! let guard = Guard::default().governed(Arc::new(governance));
//! let pay = tool_fn("pay", "Pays", |_cx, (): ()| async { Ok::<_, ToolError>("paid") })?;
//! let pay: Arc<dyn Tool> = Arc::new(pay);
//! let call = ToolCall::new("call_1", "pay", &serde_json::json!({}));
//! assert!(matches!(guard.check(&pay, &call, false), Verdict::Deny(_)));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod artifact;
mod context;
mod declared;
mod guard;
mod record;
mod redact;
mod task;
mod tool;
mod toolset;
pub mod trace;

pub use artifact::{Artifact, FileSpill, OutputCollector, Spill, SpillWriter};
pub use context::conversation::Conversation;
pub use context::deps::{Dep, DepType, Deps};
pub use context::run_context::RunContext;
pub use context::state::{Scopes, State};
pub use context::{Confirm, Nobody, ToolCx, ToolCxParts};
pub use declared::registry::{RegistryError, Runtimes};
pub use declared::runtime::{Attempt, Authenticator, Credentials, ToolRuntime};
pub use declared::{
    ATTEMPTS_DETAIL, ContractExecutor, GovernedError, GovernedTool, NoCredentials, OUTCOME_DETAIL,
    OUTCOME_UNKNOWN, RETRY_AFTER_DETAIL, ToolHost,
};
pub use guard::policy::{Governor, GovernorError, Origin};
pub use guard::{Asked, CallFacts, Guard, Oversight, Permit, Ruling, Verdict};
pub use provost_core::recovery::EffectClass;
pub use record::audit::{AuditEvent, AuditOutcome, AuditSink};
pub use record::sink::{Queue, QueueWork, RECORD_TIMEOUT, Sink, SinkError, WhenFull};
pub use record::usage::{MeterEvent, MeterSink};
pub use tool::error::ToolError;
pub use tool::function::{FnTool, tool_fn};
pub use tool::output::{IntoToolOutput, ToolOutput};
pub use tool::schema::{SchemaError, schema_of};
pub use tool::spec::{Approval, Facts, SpecError, ToolSpec};
pub use tool::{Probe, Tool, ToolFuture};
pub use toolset::{
    ApprovalTools, CompositeTools, ConfirmedTools, DynamicTools, FilteredTools, FnTools,
    PrefixedTools, RenamedTools, SearchableTools, StaticTools, Toolset, ToolsetError, ToolsetExt,
    ToolsetFuture, toolset_fn,
};
