//! The action at a limit.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::hook::HookError;
use crate::run::{LimitAction, LimitContext, LimitDecision};

pub(crate) type LimitCallback =
    dyn Fn(LimitContext) -> BoxFuture<'static, Result<LimitDecision, HookError>> + Send + Sync;

/// The action at a limit.
///
/// Limits on tool rounds and tool calls leave room for a final response. Limits on tokens, cost and time do not:
/// there `FinalAnswer` stops too.
#[derive(Clone, Default)]
pub enum OnLimit {
    /// The run ends with its results so far and reports the limit.
    #[default]
    Stop,
    /// One more model call, without tools, produces a final response.
    FinalAnswer,
    /// Calls a function of the program, which decides whether the run continues.
    Callback(Arc<LimitCallback>),
}

impl OnLimit {
    /// Creates an action that calls an async function at each limit. If the function fails, the run ends with its
    /// error.
    pub fn callback<F, Fut>(decide: F) -> Self
    where
        F: Fn(LimitContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<LimitDecision, HookError>> + Send + 'static,
    {
        Self::Callback(Arc::new(move |context| Box::pin(decide(context))))
    }

    /// Returns the action of the state machine.
    pub(crate) fn action(&self) -> LimitAction {
        match self {
            Self::Stop => LimitAction::Stop,
            Self::FinalAnswer => LimitAction::FinalAnswer,
            Self::Callback(_) => LimitAction::Ask,
        }
    }
}

impl fmt::Debug for OnLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "Stop",
            Self::FinalAnswer => "FinalAnswer",
            Self::Callback(_) => "Callback(..)",
        })
    }
}
