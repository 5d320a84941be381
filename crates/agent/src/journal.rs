//! The journal of a run: effects before they happen, and state changes in order.
//!
//! Without a journal the driver executes effects directly. With a journal it writes each effect before it happens and
//! each state change when it is applied. After a crash the run is rebuilt from the journal and continues at the first
//! effect without a recorded outcome.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{ApprovalRequest, ErrorInfo, Message, Money, ToolCall, ToolResult};
use serde_json::Value;

use crate::run::{JournalEntry, Run, RunStarted};

/// A side effect that is about to happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A model call.
    Model {
        /// 1 for the first call of the run.
        turn: u32,
        /// Provider of the model.
        provider: String,
        /// Name of the model.
        model: String,
        /// The maximum cost of this call. `None` if the price is unknown or the response length is not bounded.
        cost_max: Option<Money>,
    },
    /// Compaction of the conversation, which may call a model.
    Compact {
        /// The turn of the next model call.
        turn: u32,
    },
    /// An authorized tool call.
    Tool(Box<ToolEffect>),
}

/// A tool call that is about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEffect {
    /// The call after hooks changed it.
    pub call: ToolCall,
    /// The validated arguments.
    pub arguments: Value,
    /// Idempotency key: the same whenever this exact call is repeated.
    pub key: EffectKey,
    /// Effect class: the consequence of repeating the call.
    pub class: EffectClass,
    /// True if a probe of the tool could not determine whether an earlier attempt took effect.
    pub outcome_unknown: bool,
    /// Revision of the policy that allows the call.
    pub policy_revision: Option<Box<str>>,
    /// The approvals that people decided for this call.
    pub approvals: Vec<provost_core::ApprovalId>,
}

/// The journal's answer to an effect that is about to happen.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectStart {
    /// Recorded: execute the effect.
    Proceed,
    /// An earlier attempt has an unknown outcome: probe the tool, then execute the effect only if it did not happen.
    Probe,
    /// Do not execute the effect: this is its result.
    UseResult(ToolResult),
    /// An earlier attempt has an unknown outcome and a person must decide about it first.
    NeedsApproval(ApprovalRequest),
}

/// A failed journal write. The run cannot continue in this process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub ErrorInfo);

/// The future of a journal call.
pub type JournalFuture<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// Records the steps of one run.
pub trait Journal: Send + Sync + 'static {
    /// Called when a new run starts, before its first effect.
    fn run_started<'a>(&'a self, beginning: &'a RunStarted) -> JournalFuture<'a, ()>;

    /// Called before an effect. The effect starts only after this returns, and not at all if it fails.
    fn begin_effect(&self, effect: Effect) -> JournalFuture<'_, EffectStart>;

    /// Records one state change. Called in order and must not block: an entry need be durable only before the next
    /// [`begin_effect`](Self::begin_effect) returns.
    fn record(&self, feed: &JournalEntry) -> Result<(), JournalError>;

    /// Returns true if [`Effect::Model`] should carry a cost estimate. The default is false, because estimating reads
    /// the whole conversation.
    fn is_budgeted(&self) -> bool {
        false
    }

    /// Called when every entry so far is recorded and the session is saved. A journal may store the run as a
    /// checkpoint, so that a restore need not start at the first entry.
    fn checkpoint(&self, _run: &Run) {}

    /// Called when a tool call finds that files of its conversation are lost. The tool call continues only after this
    /// returns, and fails if this fails.
    fn workspace_reset<'a>(&'a self, _reason: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns the user messages that arrived since the last call. The run adds them with
    /// [`JournalEntry::UserMessage`], in this order.
    fn take_inputs(&self) -> JournalFuture<'_, Vec<Arc<Message>>>;
}
