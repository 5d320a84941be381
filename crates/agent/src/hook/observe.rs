//! A hook that only observes.

use async_trait::async_trait;

use super::{Hook, HookEvent, RunContext};

/// Passes every hook point to a function and changes nothing.
///
/// ```
/// use provost_agent::hook::ObserverHook;
///
/// let log = ObserverHook::new(|event| eprintln!("{:?} {:?}", event.point, event.tool));
/// ```
pub struct ObserverHook<F>(F);

impl<F: Fn(&HookEvent) + Send + Sync + 'static> ObserverHook<F> {
    /// Watches with a function.
    pub fn new(watch: F) -> Self {
        Self(watch)
    }
}

#[async_trait]
impl<F: Fn(&HookEvent) + Send + Sync + 'static> Hook for ObserverHook<F> {
    async fn on_event(&self, _cx: &RunContext, event: &HookEvent) {
        (self.0)(event);
    }
}
