//! Properties of models.

use provost_core::Pricing;
use serde::{Deserialize, Serialize};

/// Whether a model can enforce a JSON Schema on its responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutputSupport {
    /// No support.
    #[default]
    None,
    /// Support in requests without tools.
    WithoutTools,
    /// Support in all requests, with or without tools.
    WithTools,
}

/// Properties of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Name of the provider, such as `openai`.
    pub provider: String,
    /// Id of the model at the provider.
    pub model: String,
    /// Largest number of input and output tokens together. `None` if unknown.
    pub context_window: Option<u64>,
    /// Largest number of output tokens. `None` if unknown.
    pub max_output: Option<u64>,
    /// Prices of the model. `None` if unknown.
    pub pricing: Option<Pricing>,
    /// True if the model can call tools.
    pub tools: bool,
    /// True if the model accepts images.
    pub images: bool,
    /// True if the model can return its reasoning.
    pub reasoning: bool,
    /// Support for responses that follow a JSON Schema.
    pub native_output: StructuredOutputSupport,
    /// Provider and model of each endpoint that may respond instead. A policy about models must allow them too.
    #[serde(rename = "stand_ins")]
    pub fallbacks: Vec<(String, String)>,
}

impl ModelInfo {
    /// Returns the provider and the model of every endpoint that may respond, the preferred endpoint first.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let fallbacks = self.fallbacks.iter().map(|(provider, model)| (&**provider, &**model));
        std::iter::once((&*self.provider, &*self.model)).chain(fallbacks)
    }

    /// Returns the properties of an unknown model. It assumes support for tools and images, and no limits or prices.
    pub fn unknown(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            model: model.into(),
            context_window: None,
            max_output: None,
            pricing: None,
            tools: true,
            images: true,
            reasoning: false,
            native_output: StructuredOutputSupport::None,
            fallbacks: Vec::new(),
        }
    }
}
