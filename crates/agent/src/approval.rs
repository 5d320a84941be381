//! Who answers when a tool needs a person's decision.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ApprovalDecision, ApprovalRequest};

type Provider =
    dyn Fn(ApprovalRequest) -> BoxFuture<'static, Result<ApprovalDecision, String>> + Send + Sync;

/// Who answers when a tool needs a person's decision.
#[derive(Clone, Default)]
pub enum OnApproval {
    /// Nobody: such calls do not run, and the model is told.
    #[default]
    Deny,
    /// Everything is approved. For programs that have decided elsewhere.
    Approve,
    /// A function of the program, while the run waits.
    Ask(Arc<Provider>),
    /// Whoever reads the events and has a [`RunHandle`](crate::RunHandle), while the run waits.
    Events,
    /// Nobody now: the run ends as [`Suspended`](crate::Outcome::Suspended) and is resumed later, here or elsewhere.
    Suspend,
}

impl OnApproval {
    /// Asks an async function. If the function fails, the call does not run.
    pub fn ask<F, Fut>(provider: F) -> Self
    where
        F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ApprovalDecision, String>> + Send + 'static,
    {
        Self::Ask(Arc::new(move |request| Box::pin(provider(request))))
    }
}

impl fmt::Debug for OnApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deny => "Deny",
            Self::Approve => "Approve",
            Self::Ask(_) => "Ask(..)",
            Self::Events => "Events",
            Self::Suspend => "Suspend",
        })
    }
}
