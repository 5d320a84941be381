//! Tools, and the guard that authorizes, executes, redacts and records their calls.
//!
//! A [`Tool`] can only be called with a [`Permit`], and only the [`Guard`] creates permits. A [`PolicyProvider`]
//! returns the policy of a run; if it fails, every call of the run is denied. A [`DeclaredTool`] is executed by a tool
//! runtime, selected by type and isolation, with one deadline per attempt. [`GuardServices`] redact outputs, store long
//! outputs as artifacts and record every call.
//!
//! ```
//! use std::sync::Arc;
//!
//! use provost_core::ToolCall;
//! use provost_core::policy::{CompiledPolicy, PolicySources, PolicySubject};
//! use provost_tool::{Guard, Tool, ToolError, GuardDecision, tool_fn};
//!
//! // No rule allows agent `clerk` to use a tool that changes something.
//! let subject = PolicySubject::new("default", "clerk");
//! let policy = CompiledPolicy::compile(PolicySources::new("r1", subject))?;
//! let guard = Guard::default().with_policy(Arc::new(policy));
//! let pay = tool_fn("pay", "Pays", |_cx, (): ()| async { Ok::<_, ToolError>("paid") })?;
//! let pay: Arc<dyn Tool> = Arc::new(pay);
//! let call = ToolCall::new("call_1", "pay", &serde_json::json!({}));
//! assert!(matches!(guard.check(&pay, &call, false), GuardDecision::Deny(_)));
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

pub use artifact::{Artifact, ArtifactStore, ArtifactWriter, FileArtifactStore, OutputCollector};
pub use context::conversation::ConversationRef;
pub use context::deps::{Dep, DependencyType, Deps};
pub use context::run_context::RunContext;
pub use context::state::{State, StateScopes};
pub use context::{NoCallbacks, RunCallbacks, ToolContext, ToolContextParts};
pub use declared::registry::{RegistryError, RuntimeRegistry};
pub use declared::runtime::{CredentialProvider, Credentials, ToolInvocation, ToolRuntime};
pub use declared::{
    ATTEMPTS_DETAIL, DeclaredTool, DeclaredToolError, EnvelopeExecutor, NoCredentials,
    OUTCOME_DETAIL, OUTCOME_UNKNOWN, RETRY_AFTER_DETAIL, RuntimeServices,
};
pub use guard::policy::{CallOrigin, Grants, PolicyProvider, PolicyProviderError};
pub use guard::{
    ApprovalRequirement, Guard, GuardDecision, GuardServices, Permit, RuleDecision, RuleInput,
};
pub use provost_core::recovery::EffectClass;
pub use record::audit::{AuditOutcome, AuditRecord, AuditSink};
pub use record::sink::{
    BufferedSink, BufferedSinkWorker, Overflow, RECORD_TIMEOUT, RecordSink, SinkError,
};
pub use record::usage::{UsageRecord, UsageSink};
pub use tool::error::ToolError;
pub use tool::function::{FnTool, tool_fn};
pub use tool::output::{IntoToolOutput, ToolOutput};
pub use tool::schema::{SchemaError, schema_of};
pub use tool::spec::{PolicyAttributes, RequiresApproval, ToolSpec, ToolSpecError};
pub use tool::{ProbeOutcome, Tool, ToolFuture};
pub use toolset::{
    ApprovalRequiredToolset, CombinedToolset, ConditionalApprovalToolset, FilteredToolset,
    FnToolset, MutableToolset, PrefixedToolset, RenamedToolset, SearchToolset, StaticToolset,
    Toolset, ToolsetError, ToolsetExt, ToolsetFuture, toolset_fn,
};
