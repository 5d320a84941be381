//! What a running tool can reach.

pub(crate) mod conversation;
pub(crate) mod deps;
pub(crate) mod run_context;
pub(crate) mod state;

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_core::{ApprovalDecision, RunId};
use provost_redact::Redact;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::guard::pause_clock::Asking;
use crate::tool::error::check_question;
use crate::tool::output::cut_text;
use crate::{Conversation, Dep, Deps, State, ToolError};

/// Bytes of one report of progress; each one is an event that watchers keep.
const PROGRESS_BYTES_MAX: usize = 4 * 1024;

/// Answers a question that a tool asks while it runs. What is not said here is how it is where nobody is there.
pub trait Confirm: Send + Sync {
    /// Asks. `Err` ends the call: it was refused, or the run must be suspended for the answer.
    fn confirm<'a>(
        &'a self,
        _cx: &'a ToolCx,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::NeedsApproval { hint, payload })))
    }

    /// True if this call has waited for this before, and the wait is over.
    fn has_waited(&self, _wait: &Value) -> bool {
        false
    }

    /// Passes on how far the tool is.
    fn progress(&self, _cx: &ToolCx, _message: String) {}

    /// The conversation that the call belongs to.
    fn conversation(&self) -> Option<Conversation> {
        None
    }
}

/// Nobody is there to be asked, and nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Confirm for Nobody {}

/// Everything a tool knows about its call. Cheap to clone.
#[derive(Clone)]
pub struct ToolCx(Arc<Inner>);

struct Inner {
    parts: ToolCxParts,
    asking: Asking,
    /// Takes secrets out of what leaves while the tool runs; set by the guard.
    redact: OnceLock<Arc<dyn Redact>>,
}

/// The parts of a [`ToolCx`]; whoever drives a run fills them in.
pub struct ToolCxParts {
    /// The run.
    pub run_id: RunId,
    /// The agent, with the agents above it.
    pub agent: Arc<str>,
    /// Agents above this one.
    pub depth: u32,
    /// How deep agents below may be, by the strictest limit above; `None` means that nobody set one.
    pub depth_max: Option<u32>,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What is the same whenever this very call is made again.
    pub effect_key: EffectKey,
    /// How often the model may still send wrong arguments to this tool.
    pub retries_left: u32,
    /// Set when the run is stopped; long work should watch it.
    pub cancel: CancellationToken,
    /// What the program gave.
    pub deps: Deps,
    /// The run's own notes.
    pub state: State,
    /// The way out to people.
    pub outside: Arc<dyn Confirm>,
}

impl ToolCx {
    /// From its parts.
    pub fn new(parts: ToolCxParts) -> Self {
        Self(Arc::new(Inner { parts, asking: Asking::default(), redact: OnceLock::new() }))
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.0.parts.run_id
    }

    /// The agent, with the agents above it: `lead/researcher`.
    pub fn agent(&self) -> &str {
        &self.0.parts.agent
    }

    /// How deep agents below may be, by the strictest limit above.
    pub fn depth_max(&self) -> Option<u32> {
        self.0.parts.depth_max
    }

    /// How many agents are above this one.
    pub fn depth(&self) -> u32 {
        self.0.parts.depth
    }

    /// The call.
    pub fn call_id(&self) -> &str {
        &self.0.parts.call_id
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.0.parts.tool
    }

    /// A key that is the same whenever this very call is made again: an idempotency key for outside services.
    pub fn effect_key(&self) -> &EffectKey {
        &self.0.parts.effect_key
    }

    /// How often the model may still send wrong arguments to this tool in this run.
    pub fn retries_left(&self) -> u32 {
        self.0.parts.retries_left
    }

    /// Set when the run is stopped. The call is dropped then anyway; watch it to tidy up first.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.parts.cancel
    }

    /// A value the program gave to the run.
    pub fn dep<T: Send + Sync + 'static>(&self) -> Result<Dep<T>, ToolError> {
        self.0.parts.deps.get().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::Failed(format!("the run has no `{name}`: pass it with `.dep(..)`"))
        })
    }

    /// The conversation that the call belongs to, where whoever drives the run said so.
    pub fn conversation(&self) -> Option<Conversation> {
        self.0.parts.outside.conversation()
    }

    /// The run's own notes.
    pub fn state(&self) -> &State {
        &self.0.parts.state
    }

    /// Tells whoever watches how far the tool is. The model does not see it. A long text is cut.
    pub fn progress(&self, message: impl Into<String>) {
        let mut message = message.into();
        self.redact_text(&mut message);
        cut_text(&mut message, PROGRESS_BYTES_MAX);
        self.0.parts.outside.progress(self, message);
    }

    /// Asks a person before going on. The time until the answer does not count against the tool's timeout.
    ///
    /// In a run that suspends for approvals the tool is started again once the answer is there, so ask before the first effect.
    pub async fn confirm(&self, hint: impl Into<String>) -> Result<(), ToolError> {
        self.ask(hint.into(), None).await
    }

    /// Asks a person, and shows a value with the question.
    pub async fn confirm_with(
        &self,
        hint: impl Into<String>,
        payload: impl Serialize,
    ) -> Result<(), ToolError> {
        let payload = serde_json::to_value(payload)?;
        self.ask(hint.into(), Some(payload)).await
    }

    /// Suspends the run until other runs have ended; the tool is then started again. Returns at once if that has been.
    pub fn wait_for_runs(&self, wait: impl Serialize) -> Result<(), ToolError> {
        let wait = serde_json::to_value(wait)?;
        match self.0.parts.outside.has_waited(&wait) {
            true => Ok(()),
            false => Err(ToolError::WaitsForRuns { wait }),
        }
    }

    /// How long this call has waited for people.
    pub(crate) fn asking(&self) -> &Asking {
        &self.0.asking
    }

    /// Who knows the secrets of the run, for tools that cut or keep what they show: the guard sees only what is left.
    pub fn redactor(&self) -> Option<&Arc<dyn Redact>> {
        self.0.redact.get()
    }

    /// Takes secrets out of everything that the tool says from now on.
    pub(crate) fn redact_with(&self, redact: &Arc<dyn Redact>) {
        self.0.redact.get_or_init(|| Arc::clone(redact));
    }

    fn redact_text(&self, text: &mut String) {
        if let Some(redact) = self.0.redact.get() {
            redact.redact_string(text);
        }
    }

    async fn ask(&self, mut hint: String, mut payload: Option<Value>) -> Result<(), ToolError> {
        self.redact_text(&mut hint);
        if let (Some(redact), Some(payload)) = (self.0.redact.get(), &mut payload) {
            redact.redact_json(payload);
        }
        check_question(&hint, payload.as_ref())?;
        let question = self.0.asking.question();
        let answer = self.0.parts.outside.confirm(self, hint, payload).await;
        drop(question);
        match answer? {
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => Ok(()),
            ApprovalDecision::Deny { reason } => Err(ToolError::Rejected(reason)),
        }
    }
}
