//! What is known about a model before it is asked.

use provost_core::Pricing;
use serde::{Deserialize, Serialize};

/// How a model can be held to a JSON Schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NativeOutput {
    /// Not at all.
    #[default]
    None,
    /// Only in a request without tools.
    WithoutTools,
    /// Also together with tools.
    WithTools,
}

/// Facts about a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Who serves it, such as `openai`.
    pub provider: String,
    /// Its id at the provider.
    pub model: String,
    /// Tokens of input and output together.
    pub context_window: Option<u64>,
    /// Tokens of output.
    pub max_output: Option<u64>,
    /// What it costs.
    pub pricing: Option<Pricing>,
    /// True if it can call tools.
    pub tools: bool,
    /// True if it can see images.
    pub images: bool,
    /// True if it can reason and show it.
    pub reasoning: bool,
    /// How it can be held to a JSON Schema.
    pub native_output: NativeOutput,
    /// Provider and model of those that may answer in its place. A rule about models is about them, too.
    pub stand_ins: Vec<(String, String)>,
}

impl ModelInfo {
    /// Provider and model of everybody who may answer.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let stand_ins = self.stand_ins.iter().map(|(provider, model)| (&**provider, &**model));
        std::iter::once((&*self.provider, &*self.model)).chain(stand_ins)
    }

    /// A model of which only the name is known: tools and images are assumed, limits and prices are not.
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
            native_output: NativeOutput::None,
            stand_ins: Vec::new(),
        }
    }
}
