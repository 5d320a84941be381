//! Models and token limits that the policy of a run allows, and the reload of the policy.

use std::borrow::Cow;
use std::sync::Arc;

use provost_core::policy::ModelDenied;

use super::Guard;
use crate::guard::policy::{ActivePolicy, RunPolicy};

impl Guard {
    /// Returns an error if the policy denies a model. If the policy is unavailable, every model is denied.
    pub fn check_model(&self, provider: &str, model: &str) -> Result<(), ModelDenied> {
        match self.policy() {
            ActivePolicy::None => Ok(()),
            ActivePolicy::Unavailable => {
                Err(ModelDenied { policy: None, model: model.trim().to_owned() })
            }
            ActivePolicy::Loaded(policy) => policy.check_model(provider, model),
        }
    }

    /// Returns the smallest token limit that a policy sets for the run and its child runs. `None` means unlimited.
    pub fn tokens_max(&self) -> Option<u64> {
        match self.policy() {
            ActivePolicy::Loaded(policy) => policy.tokens_max(),
            ActivePolicy::None | ActivePolicy::Unavailable => None,
        }
    }

    /// Returns this guard with the policy that the policy provider returns now. The policy may have changed while a
    /// person decided about an approval.
    pub async fn reload(&self) -> Self {
        let provider = self.services.as_ref().and_then(|services| services.policies.as_deref());
        let (Some(provider), Some(run_policy)) = (provider, &self.run_policy) else {
            return self.clone();
        };
        let run_policy = RunPolicy::load(provider, run_policy.origin.clone()).await;
        Self { run_policy: Some(Arc::new(run_policy)), ..self.clone() }
    }

    /// Returns this guard unchanged, or with the current policy if the policy may have changed since it was loaded.
    pub async fn refresh(&self) -> Cow<'_, Self> {
        let provider = self.services.as_ref().and_then(|services| services.policies.as_deref());
        match (provider, &self.run_policy) {
            (Some(provider), Some(run_policy))
                if provider.generation() != run_policy.generation =>
            {
                Cow::Owned(self.reload().await)
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Returns the active policy. It is unavailable if there is a policy provider and the policy was not loaded yet.
    fn policy(&self) -> &ActivePolicy {
        let has_provider =
            self.services.as_ref().is_some_and(|services| services.policies.is_some());
        match &self.run_policy {
            Some(run_policy) => &run_policy.policy,
            None if has_provider => &ActivePolicy::Unavailable,
            None => &ActivePolicy::None,
        }
    }
}
