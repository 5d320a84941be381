//! Vendors: their wires, base URLs and environment variables.

mod cloud;
mod model_list;
mod registry;

use provost_core::Secret;
use provost_model::ModelCatalog;

pub use self::cloud::{AzureOpenAi, Bedrock, Gemini, Ollama};
pub use self::model_list::ModelListing;
pub use self::registry::{ProviderRegistry, ProviderRegistryError};
use crate::wire::WireFormat;
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::openai_chat::OpenAiChat;
use crate::wire::openai_responses::OpenAiResponses;
use crate::{HttpModel, HttpModelBuilder, ModelBuildError};

/// Builders of models of OpenAI, over Chat Completions or Responses.
#[derive(Debug, Clone, Copy)]
pub struct OpenAi;

impl OpenAi {
    /// Default base URL.
    pub const BASE_URL: &'static str = "https://api.openai.com/v1";
    /// Variable with the API key.
    pub const KEY_VARIABLE: &'static str = "OPENAI_API_KEY";
    /// Variable with another base URL.
    pub const BASE_URL_VARIABLE: &'static str = "OPENAI_BASE_URL";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Creates a builder for Chat Completions. Building requires a key.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<OpenAiChat> {
        let info = ModelCatalog::builtin().info("openai", &model.into());
        HttpModel::builder("openai", &info.model, OpenAiChat::default())
            .info(info)
            .base_url(Self::BASE_URL)
            .require_key(Self::KEY_VARIABLE)
    }

    /// Creates a builder for Responses. Over this API, reasoning models keep their reasoning between tool calls.
    pub fn responses(model: impl Into<String>) -> HttpModelBuilder<OpenAiResponses> {
        let info = ModelCatalog::builtin().info("openai", &model.into());
        HttpModel::builder("openai", &info.model, OpenAiResponses::default())
            .info(info)
            .base_url(Self::BASE_URL)
            .require_key(Self::KEY_VARIABLE)
    }

    /// Builds a model with the key and the base URL from the environment. Returns an error if the key is not set.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, ModelBuildError> {
        Self::builder_from_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Creates a builder with the key and the base URL from `vars`.
    pub fn builder_from_vars(
        model: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<OpenAiChat> {
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// Builders of models of Anthropic, over Messages.
#[derive(Debug, Clone, Copy)]
pub struct Anthropic;

impl Anthropic {
    /// Default base URL.
    pub const BASE_URL: &'static str = "https://api.anthropic.com";
    /// Variable with the API key.
    pub const KEY_VARIABLE: &'static str = "ANTHROPIC_API_KEY";
    /// Variable with another base URL.
    pub const BASE_URL_VARIABLE: &'static str = "ANTHROPIC_BASE_URL";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Creates a builder for Messages. Building requires a key.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<AnthropicMessages> {
        let info = ModelCatalog::builtin().info("anthropic", &model.into());
        HttpModel::builder("anthropic", &info.model, AnthropicMessages::for_model(&info.model))
            .info(info)
            .base_url(Self::BASE_URL)
            .require_key(Self::KEY_VARIABLE)
    }

    /// Builds a model with the key and the base URL from the environment. Returns an error if the key is not set.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, ModelBuildError> {
        Self::builder_from_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Creates a builder with the key and the base URL from `vars`.
    pub fn builder_from_vars(
        model: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<AnthropicMessages> {
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// Creates a builder for a server with OpenAI's Chat Completions API. A key is optional.
pub fn openai_compatible(
    provider: impl Into<String>,
    base_url: impl Into<String>,
    model: impl Into<String>,
) -> HttpModelBuilder<OpenAiChat> {
    let provider = provider.into();
    let info = ModelCatalog::builtin().info(&provider, &model.into());
    let wire = OpenAiChat { legacy_max_tokens: true, ..OpenAiChat::default() };
    HttpModel::builder(provider, &info.model, wire).info(info).base_url(base_url)
}

/// Names of a vendor's environment variables.
#[derive(Debug, Clone, Copy)]
struct Variables<'a> {
    key: &'a str,
    base_url: &'a str,
}

/// Sets the key and the base URL from the variables. A variable that is not set or blank changes nothing.
fn configure_from_env<W: WireFormat>(
    builder: HttpModelBuilder<W>,
    names: Variables<'_>,
    vars: impl Fn(&str) -> Option<String>,
) -> HttpModelBuilder<W> {
    let var = |name| vars(name).filter(|value| !value.trim().is_empty());
    let builder = match var(names.key) {
        Some(key) => builder.api_key(Secret::new(key.trim().to_owned())),
        None => builder,
    };
    match var(names.base_url) {
        Some(url) => builder.base_url(url),
        None => builder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provost_model::ChatModel;

    #[test]
    fn a_missing_key_names_the_variable() {
        let empty = |_: &str| Some(" ".to_owned());
        let openai =
            OpenAi::builder_from_vars("gpt-5.1", |_| None).build().unwrap_err().to_string();
        assert!(openai.contains("OPENAI_API_KEY"), "{openai}");
        let anthropic =
            Anthropic::builder_from_vars("claude-opus-5", empty).build().unwrap_err().to_string();
        assert!(anthropic.contains("ANTHROPIC_API_KEY"), "{anthropic}");
    }

    #[test]
    fn key_and_address_come_from_the_variables() {
        let vars = |name: &str| match name {
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" => Some("k\n".to_owned()),
            "ANTHROPIC_BASE_URL" => Some("https://gate.example".to_owned()),
            _ => None,
        };
        let model = Anthropic::builder_from_vars("claude-opus-5", vars).build().unwrap();
        assert_eq!(model.url(), "https://gate.example/v1/messages");
        assert!(model.info().reasoning);
        let model = OpenAi::builder_from_vars("gpt-5.1", vars).build().unwrap();
        assert_eq!(model.url(), "https://api.openai.com/v1/chat/completions");
        let local =
            openai_compatible("ollama", "http://localhost:11434/v1", "llama").build().unwrap();
        assert_eq!(local.info().provider, "ollama");
        assert_eq!(local.info().context_window, None);
    }
}
