//! What a running tool can reach.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ApprovalDecision, RunId};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Dep, Deps, State, ToolError};

/// Answers a question that a tool asks while it runs.
pub trait Confirm: Send + Sync {
    /// Asks. `Err` ends the call: it was refused, or the run must be suspended for the answer.
    fn confirm<'a>(
        &'a self,
        cx: &'a ToolCx,
        hint: String,
        payload: Option<Value>,
    ) -> BoxFuture<'a, Result<ApprovalDecision, ToolError>>;

    /// Passes on how far the tool is.
    fn progress(&self, cx: &ToolCx, message: String);
}

/// Everything a tool knows about its call. Cheap to clone.
#[derive(Clone)]
pub struct ToolCx(Arc<ToolCxParts>);

/// The parts of a [`ToolCx`]; whoever drives a run fills them in.
pub struct ToolCxParts {
    /// The run.
    pub run_id: RunId,
    /// The agent, with the agents above it.
    pub agent: Arc<str>,
    /// Agents above this one.
    pub depth: u32,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
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
        Self(Arc::new(parts))
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.0.run_id
    }

    /// The agent, with the agents above it: `lead/researcher`.
    pub fn agent(&self) -> &str {
        &self.0.agent
    }

    /// How many agents are above this one.
    pub fn depth(&self) -> u32 {
        self.0.depth
    }

    /// The call.
    pub fn call_id(&self) -> &str {
        &self.0.call_id
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.0.tool
    }

    /// A key that is the same whenever this very call is made again: an idempotency key for outside services.
    pub fn effect_key(&self) -> String {
        format!("{}/{}", self.0.run_id, self.0.call_id)
    }

    /// How often the model may still send wrong arguments to this tool in this run.
    pub fn retries_left(&self) -> u32 {
        self.0.retries_left
    }

    /// Set when the run is stopped. The call is dropped then anyway; watch it to tidy up first.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancel
    }

    /// A value the program gave to the run.
    pub fn dep<T: Send + Sync + 'static>(&self) -> Result<Dep<T>, ToolError> {
        self.0.deps.get().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            ToolError::Failed(format!("the run has no `{name}`: pass it with `.dep(..)`"))
        })
    }

    /// The run's own notes.
    pub fn state(&self) -> &State {
        &self.0.state
    }

    /// Tells whoever watches how far the tool is. The model does not see it.
    pub fn progress(&self, message: impl Into<String>) {
        self.0.outside.progress(self, message.into());
    }

    /// Asks a person before going on.
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

    async fn ask(&self, hint: String, payload: Option<Value>) -> Result<(), ToolError> {
        match self.0.outside.confirm(self, hint, payload).await? {
            ApprovalDecision::Approve => Ok(()),
            ApprovalDecision::Deny { reason } => Err(ToolError::Rejected(reason)),
        }
    }
}
