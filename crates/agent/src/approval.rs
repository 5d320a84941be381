//! Approval modes: how a run decides about tool calls that require an approval.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ApprovalDecision, ApprovalRequest};

type Provider =
    dyn Fn(ApprovalRequest) -> BoxFuture<'static, Result<ApprovalDecision, String>> + Send + Sync;

/// How a run decides about tool calls that require an approval.
#[derive(Clone, Default)]
pub enum ApprovalMode {
    /// Denies the call. The model receives the denial.
    #[default]
    Deny,
    /// Approves every call, for programs that have decided elsewhere.
    AutoApprove,
    /// Calls a function of the program while the run waits.
    Callback(Arc<Provider>),
    /// Emits an event and waits for a decision through the [`RunHandle`](crate::RunHandle).
    Interactive,
    /// Ends the run as [`Suspended`](crate::RunOutcome::Suspended). It can be resumed later, in any process.
    Suspend,
}

impl ApprovalMode {
    /// Creates a mode that calls an async function for each approval. If the function fails, the call is denied.
    pub fn callback<F, Fut>(provider: F) -> Self
    where
        F: Fn(ApprovalRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ApprovalDecision, String>> + Send + 'static,
    {
        Self::Callback(Arc::new(move |request| Box::pin(provider(request))))
    }
}

impl fmt::Debug for ApprovalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deny => "Deny",
            Self::AutoApprove => "AutoApprove",
            Self::Callback(_) => "Callback(..)",
            Self::Interactive => "Interactive",
            Self::Suspend => "Suspend",
        })
    }
}
