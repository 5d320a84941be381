//! The conversation of a call, for tools that store data per conversation.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Handler for the loss of a conversation's files. An `Err` contains the reason why the loss could not be recorded.
type WorkspaceResetHandler = dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Reference to the conversation of a tool call. A run without a session is its own conversation.
#[derive(Clone)]
pub struct ConversationRef {
    /// Namespace of the conversation.
    pub namespace: String,
    /// Id of the conversation within its namespace.
    pub id: String,
    /// Principal of the conversation. Empty if unknown.
    pub principal: String,
    /// Turn of the call. All calls of one model response share it. Empty if there is none.
    pub turn: String,
    on_reset: Arc<WorkspaceResetHandler>,
}

impl ConversationRef {
    /// Creates a reference without a turn and without a handler for lost files.
    pub fn new(
        namespace: impl Into<String>,
        id: impl Into<String>,
        principal: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            id: id.into(),
            principal: principal.into(),
            turn: String::new(),
            on_reset: Arc::new(|_| std::future::ready(Ok(())).boxed()),
        }
    }

    /// Sets the turn.
    #[must_use]
    pub fn in_turn(mut self, turn: impl Into<String>) -> Self {
        self.turn = turn.into();
        self
    }

    /// Sets the handler that records the loss of the conversation's files.
    #[must_use]
    pub fn on_workspace_reset<F>(
        mut self,
        on_reset: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.on_reset = Arc::new(move |reason| on_reset(reason).boxed());
        self
    }

    /// Reports to the run that files of the conversation were lost. Returns an error if this cannot be recorded; the
    /// remaining files must then not be used.
    pub async fn report_workspace_reset(&self, reason: impl Into<String>) -> Result<(), String> {
        (self.on_reset)(reason.into()).await
    }
}

impl fmt::Debug for ConversationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, id, principal, .. } = self;
        write!(f, "ConversationRef({namespace}/{id} of `{principal}`)")
    }
}
