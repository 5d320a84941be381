//! The conversation that a call belongs to, for tools that keep something for it.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Takes in that files are lost. An `Err` says why that could not be written down.
type Told = dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// The conversation that a call belongs to. Whoever drives a run gives it to the tools; a run without a session is a
/// conversation of its own.
#[derive(Clone)]
pub struct Conversation {
    /// Where it belongs.
    pub namespace: String,
    /// Which one it is there.
    pub id: String,
    /// Who speaks in it; nothing if nobody said so.
    pub principal: String,
    /// The turn of the call: the same for all calls that one answer of the model asked for; nothing if there is none.
    pub turn: String,
    told: Arc<Told>,
}

impl Conversation {
    /// One that nobody watches.
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
            told: Arc::new(|_| std::future::ready(Ok(())).boxed()),
        }
    }

    /// In a turn.
    #[must_use]
    pub fn in_turn(mut self, turn: impl Into<String>) -> Self {
        self.turn = turn.into();
        self
    }

    /// With somebody who is told that its files are not what they were, and may have to write that down.
    #[must_use]
    pub fn on_workspace_reset<F>(
        mut self,
        told: impl Fn(String) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        self.told = Arc::new(move |reason| told(reason).boxed());
        self
    }

    /// Tells whoever watches that files of the conversation are lost, before anything is done with those that are left. If it
    /// cannot be written down, nothing may be done with them.
    pub async fn workspace_reset(&self, reason: impl Into<String>) -> Result<(), String> {
        (self.told)(reason.into()).await
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, id, principal, .. } = self;
        write!(f, "Conversation({namespace}/{id} of `{principal}`)")
    }
}
