//! Context of a running tool call.

/// Returns the conversation of the call. `None` if the call belongs to no conversation.
pub(crate) mod conversation;
pub(crate) mod deps;
pub(crate) mod run_context;
pub(crate) mod state;

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_core::{ApprovalDecision, RunId};
use provost_redact::Redact;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::guard::pause_clock::PauseClock;
use crate::tool::error::check_question;
use crate::tool::output::cut_text;
use crate::{ConversationRef, Dep, Deps, State, ToolError};

/// Maximum size of one progress message. Each message becomes an event.
const PROGRESS_BYTES_MAX: usize = 4 * 1024;

/// Callbacks of a tool into the run that called it. The default implementations apply to calls outside of a run.
pub trait RunCallbacks: Send + Sync {
    /// Asks a person to confirm, and returns the decision. `Err` ends the call: the question is invalid, or the run
    /// must be suspended until the decision arrives.
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolContext,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::NeedsApproval { hint, payload })))
    }

    /// Returns true if this call has already waited for `wait`, and the wait has ended.
    fn has_waited(&self, _wait: &Value) -> bool {
        false
    }

    /// Reports progress of the tool.
    fn progress(&self, _cx: &ToolContext, _message: String) {}

    /// Returns the conversation of the call. `None` if the call belongs to no conversation.
    fn conversation(&self) -> Option<ConversationRef> {
        None
    }
}

/// Callbacks of a call without a run. Confirmations end with [`ToolError::NeedsApproval`], and progress is discarded.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoCallbacks;

impl RunCallbacks for NoCallbacks {}

/// Context of one tool call. Cheap to clone.
#[derive(Clone)]
pub struct ToolContext(Arc<Inner>);

/// Fields, redactor and clock that the clones of a context share.
struct Inner {
    parts: ToolContextParts,
    pause_clock: PauseClock,
}

/// Fields of a [`ToolContext`].
pub struct ToolContextParts {
    /// Id of the run.
    pub run_id: RunId,
    /// Path of the agent, with its parent agents: `lead/researcher`.
    pub agent: Arc<str>,
    /// Number of parent agents.
    pub depth: u32,
    /// Maximum depth of child agents, the smallest of all limits that apply. `None` means unlimited.
    pub depth_max: Option<u32>,
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub tool: String,
    /// Idempotency key of the call. Repeating the same call uses the same key.
    pub effect_key: EffectKey,
    /// Number of further calls with invalid arguments that are accepted in this run.
    pub retries_left: u32,
    /// Cancelled when the run stops. Long-running tools should watch it.
    pub cancel: CancellationToken,
    /// Dependencies that the application gave to the run.
    pub deps: Deps,
    /// State of the run.
    pub state: State,
    /// Callbacks into the run.
    pub callbacks: Arc<dyn RunCallbacks>,
    /// Removes secrets from text that leaves the tool while it runs: the redactor of the guard that runs the call.
    /// `None` only if that guard has none.
    pub redact: Option<Arc<dyn Redact>>,
}

impl ToolContext {
    /// Creates a context from its fields.
    pub fn new(parts: ToolContextParts) -> Self {
        Self(Arc::new(Inner { parts, pause_clock: PauseClock::default() }))
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> RunId {
        self.0.parts.run_id
    }

    /// Returns the path of the agent, with its parent agents: `lead/researcher`.
    pub fn agent(&self) -> &str {
        &self.0.parts.agent
    }

    /// Returns the maximum depth of child agents. `None` means unlimited.
    pub fn depth_max(&self) -> Option<u32> {
        self.0.parts.depth_max
    }

    /// Returns the number of parent agents.
    pub fn depth(&self) -> u32 {
        self.0.parts.depth
    }

    /// Returns the id of the call.
    pub fn call_id(&self) -> &str {
        &self.0.parts.call_id
    }

    /// Returns the name of the tool.
    pub fn tool(&self) -> &str {
        &self.0.parts.tool
    }

    /// Returns the idempotency key of the call, for requests to external services. Repeating the same call uses the
    /// same key.
    pub fn effect_key(&self) -> &EffectKey {
        &self.0.parts.effect_key
    }

    /// Returns the number of further calls with invalid arguments that are accepted in this run.
    pub fn retries_left(&self) -> u32 {
        self.0.parts.retries_left
    }

    /// Returns a token that is cancelled when the run stops. The future of the call is dropped in any case; watch the
    /// token to clean up first.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.parts.cancel
    }

    /// Returns the dependency of this type. Returns an error if the application did not give one to the run.
    pub fn dep<T: Send + Sync + 'static>(&self) -> Result<Dep<T>, ToolError> {
        self.0.parts.deps.get().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::Failed(format!("the run has no `{name}`: pass it with `.dep(..)`"))
        })
    }

    /// Returns the conversation of the call. `None` if it belongs to none.
    pub fn conversation(&self) -> Option<ConversationRef> {
        self.0.parts.callbacks.conversation()
    }

    /// Returns the state of the run.
    pub fn state(&self) -> &State {
        &self.0.parts.state
    }

    /// Reports progress as an event of the run, which is not sent to the model. Secrets are removed, and long messages
    /// are cut.
    pub fn progress(&self, message: impl Into<String>) {
        let mut message = message.into();
        self.redact_text(&mut message);
        cut_text(&mut message, PROGRESS_BYTES_MAX);
        self.0.parts.callbacks.progress(self, message);
    }

    /// Asks a person for confirmation and waits for the answer. The waiting time does not count against the timeout of
    /// the tool.
    ///
    /// A run that suspends for approvals calls the tool again after the answer, so ask before the first effect.
    pub async fn confirm(&self, hint: impl Into<String>) -> Result<(), ToolError> {
        self.request_confirmation(hint.into(), None).await
    }

    /// Asks a person for confirmation, like [`ToolContext::confirm`], and shows a value with the question.
    pub async fn confirm_with(
        &self,
        hint: impl Into<String>,
        payload: impl Serialize,
    ) -> Result<(), ToolError> {
        let payload = serde_json::to_value(payload)?;
        self.request_confirmation(hint.into(), Some(payload)).await
    }

    /// Returns an error that suspends the run until other runs have ended; the tool is then called again. Returns `Ok`
    /// if this wait has already ended.
    pub fn wait_for_runs(&self, wait: impl Serialize) -> Result<(), ToolError> {
        let wait = serde_json::to_value(wait)?;
        match self.0.parts.callbacks.has_waited(&wait) {
            true => Ok(()),
            false => Err(ToolError::WaitsForRuns { wait }),
        }
    }

    /// Returns the clock that measures how long this call waits for people.
    pub(crate) fn pause_clock(&self) -> &PauseClock {
        &self.0.pause_clock
    }

    /// Returns the redactor of the run. Tools that truncate or store output must use it first, because the guard only
    /// sees the remaining text.
    pub fn redactor(&self) -> Option<&Arc<dyn Redact>> {
        self.0.parts.redact.as_ref()
    }

    /// Removes secrets from a text, if a redactor is set.
    fn redact_text(&self, text: &mut String) {
        if let Some(redact) = self.redactor() {
            redact.redact_string(text);
        }
    }

    /// Redacts and validates the question, and waits for the answer with the clock paused. Returns an error unless it
    /// is approved.
    async fn request_confirmation(
        &self,
        mut hint: String,
        mut payload: Option<Value>,
    ) -> Result<(), ToolError> {
        self.redact_text(&mut hint);
        if let (Some(redact), Some(payload)) = (self.redactor(), &mut payload) {
            redact.redact_json(payload);
        }
        check_question(&hint, payload.as_ref())?;
        let question = self.0.pause_clock.pause();
        let answer = self.0.parts.callbacks.confirm(self, hint, payload).await;
        drop(question);
        match answer? {
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => Ok(()),
            ApprovalDecision::Deny { reason } => Err(ToolError::Rejected(reason)),
        }
    }
}
