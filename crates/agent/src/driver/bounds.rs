//! Checks a policy's bounds before each model call: the allowed models and the token budget.

use provost_core::LimitReached;
use provost_model::ModelInfo;

use super::setup::DriverContext;
use super::{Driver, Error};

impl Driver {
    /// Returns an error if a policy denies the model, or the limit if the policy's token budget is used up.
    pub(super) async fn check_policy_budget(&self) -> Result<Option<LimitReached>, Error> {
        self.cx.check_model(self.cx.model.info()).await?;
        let Some(allowed) = self.cx.guard().await.refreshed().await.tokens_max() else {
            return Ok(None);
        };
        // The cap includes the usage of running children, which stop at it too.
        self.cx.budget.cap_tokens(allowed);
        Ok(self.run.exceeded_token_cap(allowed).or_else(|| self.cx.budget.exceeded_token_cap()))
    }
}

impl DriverContext {
    /// Returns an error if a policy denies the model. A routed or composite model is denied if any of its parts is.
    pub(super) async fn check_model(&self, info: &ModelInfo) -> Result<(), Error> {
        if !self.shared_guard.has_policy() {
            return Ok(());
        }
        let guard = self.guard().await.refreshed().await;
        for (provider, model) in info.names() {
            guard.check_model(provider, model)?;
        }
        Ok(())
    }

    /// Checks every model that a strategy or policy may call for the run.
    pub(super) async fn check_models<'a>(
        &self,
        models: impl IntoIterator<Item = &'a ModelInfo>,
    ) -> Result<(), Error> {
        for info in models {
            self.check_model(info).await?;
        }
        Ok(())
    }
}
