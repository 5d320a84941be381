//! Where the driver writes down what it is about to do and what came of it.
//!
//! In memory there is no journal and the driver just acts. Under an engine every effect is begun in the journal before it
//! happens and every feed is recorded when it is taken in, so that after a crash the run can be folded again and goes on at
//! the first thing that is not recorded.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{ApprovalRequest, ErrorInfo, Message, Money, ToolCall, ToolResult};
use serde_json::Value;

use crate::run::{Feed, Run, RunStarted};

/// An effect that is about to happen.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The model is asked.
    Model {
        /// 1 for the first call of the run.
        turn: u32,
        /// Whose model.
        provider: String,
        /// Which model.
        model: String,
        /// The most this call can cost, if its price is known and its length is bounded.
        cost_max: Option<Money>,
    },
    /// The conversation is made to fit, which may ask a model.
    Compact {
        /// Before this model call.
        turn: u32,
    },
    /// A permitted tool runs.
    Tool(Box<ToolEffect>),
}

/// A tool call that is about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEffect {
    /// The call as hooks left it.
    pub call: ToolCall,
    /// Its checked arguments.
    pub arguments: Value,
    /// What is the same whenever this very call is made again.
    pub key: EffectKey,
    /// What a repetition would do.
    pub class: EffectClass,
    /// True if the tool was asked whether it had happened and could not say.
    pub unsure: bool,
    /// The revision of the policy that lets it run.
    pub policy_revision: Option<Box<str>>,
    /// Every question a person has answered about it.
    pub approvals: Vec<provost_core::ApprovalId>,
}

/// What the journal says about an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    /// It is written down: do it.
    Go,
    /// It was begun before and nobody knows what came of it: ask the tool, then do it if it did not happen.
    Probe,
    /// Do not do it; this is its result.
    Settled(ToolResult),
    /// A person must say first what came of it.
    Ask(ApprovalRequest),
}

/// Why the journal did not take something; the run cannot go on here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub ErrorInfo);

/// What a journal's call gives.
pub type JournalFuture<'a, T> = BoxFuture<'a, Result<T, JournalError>>;

/// Keeps what happens in one run. See the module for when it is called.
pub trait Journal: Send + Sync + 'static {
    /// A fresh run begins. It ends before the first effect.
    fn began<'a>(&'a self, beginning: &'a RunStarted) -> JournalFuture<'a, ()>;

    /// An effect is about to happen. Nothing happens before this has returned, and nothing at all if it fails.
    fn begin(&self, effect: Effect) -> JournalFuture<'_, Begun>;

    /// The machine takes this in. Called in order and must not wait: what is recorded need only be safe before the next
    /// [`begin`](Self::begin) returns.
    fn record(&self, feed: &Feed) -> Result<(), JournalError>;

    /// True if somebody pays attention to what model calls can cost: estimating it reads the whole conversation.
    fn is_budgeted(&self) -> bool {
        false
    }

    /// Everything that was fed so far is recorded, and the session has all of it. A journal may keep the run as it stands, so
    /// that it need not be folded from its beginning.
    fn settled(&self, _run: &Run) {}

    /// A call has found that files of its conversation are lost. It does nothing before this has returned, and nothing at all
    /// if it fails.
    fn workspace_reset<'a>(&'a self, _reason: &'a str) -> JournalFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What was said to the run since it was last asked; the run takes it in with [`Feed::UserSaid`], in this order.
    fn inputs(&self) -> JournalFuture<'_, Vec<Arc<Message>>>;
}
