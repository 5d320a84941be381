//! What a policy lets a run use, looked at before each model call: which models, and how many tokens.

use provost_core::LimitReached;
use provost_model::ModelInfo;

use super::setup::Cx;
use super::{Driver, Error};

impl Driver {
    /// Refuses a model that a policy does not allow, and tells if the tokens that one gives the run are used up.
    pub(super) async fn spent_by_policy(&self) -> Result<Option<LimitReached>, Error> {
        self.cx.check_model(self.cx.model.info()).await?;
        let Some(allowed) = self.cx.guard().await.up_to_date().await.tokens_max() else {
            return Ok(None);
        };
        // Also what runs below use while they run counts, and they stop with it.
        self.cx.pot.bound(allowed);
        Ok(self.run.used_up(allowed).or_else(|| self.cx.pot.used_up()))
    }
}

impl Cx {
    /// Refuses a model that a policy does not allow, or of which a part is not allowed.
    pub(super) async fn check_model(&self, info: &ModelInfo) -> Result<(), Error> {
        if !self.shared_guard.is_governed() {
            return Ok(());
        }
        let guard = self.guard().await.up_to_date().await;
        for (provider, model) in info.names() {
            guard.check_model(provider, model)?;
        }
        Ok(())
    }

    /// The same for every model that something else asks on behalf of the run.
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
