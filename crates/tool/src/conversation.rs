//! The conversation that a call belongs to, for tools that keep something for it.

use std::fmt;
use std::sync::Arc;

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
    told: Arc<dyn Fn(String) + Send + Sync>,
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
            told: Arc::new(|_| {}),
        }
    }

    /// With somebody who is told that its files are not what they were.
    #[must_use]
    pub fn on_workspace_reset(mut self, told: impl Fn(String) + Send + Sync + 'static) -> Self {
        self.told = Arc::new(told);
        self
    }

    /// Tells whoever watches that files of the conversation are lost.
    pub fn workspace_reset(&self, reason: impl Into<String>) {
        (self.told)(reason.into());
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, id, principal, .. } = self;
        write!(f, "Conversation({namespace}/{id} of `{principal}`)")
    }
}
