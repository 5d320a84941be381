//! What is known about models before they are asked, as data.
//!
//! The table is read when something is first looked up, never at start-up.

use std::sync::OnceLock;

use provost_core::Pricing;
use serde::Deserialize;

use crate::wire::anthropic::Thinking;
use crate::{ModelInfo, NativeOutput};

/// The table that ships with Provost.
const TABLE: &str = include_str!("catalog.toml");

/// Facts about models, by provider and name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    #[serde(default, rename = "model")]
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    provider: String,
    model: String,
    context_window: Option<u64>,
    max_output: Option<u64>,
    pricing: Option<Pricing>,
    #[serde(default = "yes")]
    tools: bool,
    #[serde(default = "yes")]
    images: bool,
    #[serde(default)]
    reasoning: bool,
    #[serde(default)]
    native_output: NativeOutput,
    /// True for models that want a thinking budget in tokens.
    #[serde(default)]
    thinking_budget: bool,
    /// False for models that refuse `temperature` and `top_p`.
    #[serde(default = "yes")]
    sampling: bool,
}

fn yes() -> bool {
    true
}

/// How an Anthropic model differs from others on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnthropicTraits {
    pub(crate) thinking: Thinking,
    pub(crate) sampling: bool,
}

impl Catalog {
    /// The catalog that ships with Provost.
    pub fn builtin() -> &'static Catalog {
        static BUILTIN: OnceLock<Catalog> = OnceLock::new();
        // A test reads the table, so it cannot be broken; without it every model is unknown, which still works.
        BUILTIN.get_or_init(|| Catalog::parse(TABLE).unwrap_or_default())
    }

    /// Reads a table of one's own.
    pub fn parse(text: &str) -> Result<Catalog, toml::de::Error> {
        toml::from_str(text)
    }

    /// What is known about a model; a model that is not listed is [`ModelInfo::unknown`].
    ///
    /// A dated name such as `gpt-4o-2024-08-06` finds the entry without the date.
    pub fn info(&self, provider: &str, model: &str) -> ModelInfo {
        let mut info = ModelInfo::unknown(provider, model);
        if let Some(entry) = self.entry(provider, model) {
            info.context_window = entry.context_window;
            info.max_output = entry.max_output;
            info.pricing = entry.pricing;
            info.tools = entry.tools;
            info.images = entry.images;
            info.reasoning = entry.reasoning;
            info.native_output = entry.native_output;
        }
        info
    }

    /// The names of a provider's listed models.
    pub fn models<'a>(&'a self, provider: &'a str) -> impl Iterator<Item = &'a str> {
        let entries = self.entries.iter().filter(move |entry| entry.provider == provider);
        entries.map(|entry| entry.model.as_str())
    }

    pub(crate) fn anthropic_traits(&self, model: &str) -> AnthropicTraits {
        let entry = self.entry("anthropic", model);
        AnthropicTraits {
            thinking: match entry.is_some_and(|entry| entry.thinking_budget) {
                true => Thinking::Budget,
                false => Thinking::Adaptive,
            },
            sampling: entry.is_none_or(|entry| entry.sampling),
        }
    }

    fn entry(&self, provider: &str, model: &str) -> Option<&Entry> {
        let of_provider = || self.entries.iter().filter(|entry| entry.provider == provider);
        of_provider()
            .find(|entry| entry.model == model)
            .or_else(|| of_provider().find(|entry| is_dated(model, &entry.model)))
    }
}

/// True if one name is the other with a date behind it, or with `latest`. A version number is no date.
pub(crate) fn is_dated(model: &str, name: &str) -> bool {
    let Some(date) = model.strip_prefix(name).and_then(|rest| rest.strip_prefix('-')) else {
        return false;
    };
    let date = date.as_bytes();
    let is_shaped = |shape: &[u8]| {
        let fits = |(byte, shape): (&u8, &u8)| match shape {
            b'-' => *byte == b'-',
            _ => byte.is_ascii_digit(),
        };
        date.len() == shape.len() && date.iter().zip(shape).all(fits)
    };
    date == b"latest" || is_shaped(b"yyyymmdd") || is_shaped(b"yyyy-mm-dd")
}

#[cfg(test)]
mod tests;
