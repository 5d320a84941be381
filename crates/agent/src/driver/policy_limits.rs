//! Limits that a policy sets for a run: the allowed models and the token budget.

use provost_core::LimitReached;
use provost_model::ModelInfo;

use super::setup::DriverContext;
use super::{Driver, Error};

impl Driver {
    /// Returns an error if a policy denies the model. Otherwise sets the policy's token limit for the run, and returns
    /// the limit if it is used up.
    pub(super) async fn check_policy(&self) -> Result<Option<LimitReached>, Error> {
        self.cx.check_model(self.cx.model.info()).await?;
        let Some(allowed) = self.cx.guard().await.refresh().await.tokens_max() else {
            return Ok(None);
        };
        // The cap includes the usage of running children, which stop at it too.
        self.cx.budget.cap_tokens(allowed);
        Ok(self.run.exceeded_token_cap(allowed).or_else(|| self.cx.budget.exceeded_token_cap()))
    }
}

impl DriverContext {
    /// Returns an error if a policy denies the model. A routed model is denied if one of its endpoints is denied.
    pub(super) async fn check_model(&self, info: &ModelInfo) -> Result<(), Error> {
        if !self.shared_guard.has_policy() {
            return Ok(());
        }
        let guard = self.guard().await.refresh().await;
        for (provider, model) in info.names() {
            guard.check_model(provider, model)?;
        }
        Ok(())
    }

    /// Returns an error if a policy denies one of these models.
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
