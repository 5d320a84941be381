//! Providers: which wire, which address, which variables.

mod cloud;
mod model_list;
mod registry;

use provost_core::Secret;
use provost_model::Catalog;

pub use self::cloud::{AzureOpenAi, Bedrock, Gemini, Ollama};
pub use self::model_list::ModelList;
pub use self::registry::{Providers, ProvidersError};
use crate::wire::Wire;
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::openai_chat::OpenAiChat;
use crate::wire::openai_responses::OpenAiResponses;
use crate::{BuildError, HttpModel, HttpModelBuilder};

/// OpenAI over Chat Completions, or over Responses.
#[derive(Debug, Clone, Copy)]
pub struct OpenAi;

impl OpenAi {
    /// Where it is.
    pub const BASE_URL: &'static str = "https://api.openai.com/v1";
    /// The variable that holds the key.
    pub const KEY_VARIABLE: &'static str = "OPENAI_API_KEY";
    /// The variable that holds another address.
    pub const BASE_URL_VARIABLE: &'static str = "OPENAI_BASE_URL";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Begins a model.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<OpenAiChat> {
        let info = Catalog::builtin().info("openai", &model.into());
        HttpModel::builder("openai", &info.model, OpenAiChat::default())
            .info(info)
            .base_url(Self::BASE_URL)
            .require_key(Self::KEY_VARIABLE)
    }

    /// Begins a model over Responses, where reasoning models keep their thoughts from one tool call to the next.
    pub fn responses(model: impl Into<String>) -> HttpModelBuilder<OpenAiResponses> {
        let info = Catalog::builtin().info("openai", &model.into());
        HttpModel::builder("openai", &info.model, OpenAiResponses::default())
            .info(info)
            .base_url(Self::BASE_URL)
            .require_key(Self::KEY_VARIABLE)
    }

    /// A model with the key and the address that the environment names.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, BuildError> {
        Self::with_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Begins a model with the key and the address that `vars` names.
    pub fn with_vars(
        model: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<OpenAiChat> {
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// Anthropic over Messages.
#[derive(Debug, Clone, Copy)]
pub struct Anthropic;

impl Anthropic {
    /// Where it is.
    pub const BASE_URL: &'static str = "https://api.anthropic.com";
    /// The variable that holds the key.
    pub const KEY_VARIABLE: &'static str = "ANTHROPIC_API_KEY";
    /// The variable that holds another address.
    pub const BASE_URL_VARIABLE: &'static str = "ANTHROPIC_BASE_URL";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Begins a model.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<AnthropicMessages> {
        let info = Catalog::builtin().info("anthropic", &model.into());
        HttpModel::builder("anthropic", &info.model, AnthropicMessages::for_model(&info.model))
            .info(info)
            .base_url(Self::BASE_URL)
            .require_key(Self::KEY_VARIABLE)
    }

    /// A model with the key and the address that the environment names.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, BuildError> {
        Self::with_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Begins a model with the key and the address that `vars` names.
    pub fn with_vars(
        model: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<AnthropicMessages> {
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// Begins a model of any server that speaks Chat Completions. It needs no key unless one is given.
pub fn openai_compatible(
    provider: impl Into<String>,
    base_url: impl Into<String>,
    model: impl Into<String>,
) -> HttpModelBuilder<OpenAiChat> {
    let provider = provider.into();
    let info = Catalog::builtin().info(&provider, &model.into());
    let wire = OpenAiChat { legacy_max_tokens: true, ..OpenAiChat::default() };
    HttpModel::builder(provider, &info.model, wire).info(info).base_url(base_url)
}

/// The variables of a vendor.
#[derive(Debug, Clone, Copy)]
struct Variables<'a> {
    key: &'a str,
    base_url: &'a str,
}

/// Takes the key and the address from the variables.
fn configure_from_env<W: Wire>(
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
        let openai = OpenAi::with_vars("gpt-5.1", |_| None).build().unwrap_err().to_string();
        assert!(openai.contains("OPENAI_API_KEY"), "{openai}");
        let anthropic =
            Anthropic::with_vars("claude-opus-5", empty).build().unwrap_err().to_string();
        assert!(anthropic.contains("ANTHROPIC_API_KEY"), "{anthropic}");
    }

    #[test]
    fn key_and_address_come_from_the_variables() {
        let vars = |name: &str| match name {
            "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" => Some("k\n".to_owned()),
            "ANTHROPIC_BASE_URL" => Some("https://gate.example".to_owned()),
            _ => None,
        };
        let model = Anthropic::with_vars("claude-opus-5", vars).build().unwrap();
        assert_eq!(model.url(), "https://gate.example/v1/messages");
        assert!(model.info().reasoning);
        let model = OpenAi::with_vars("gpt-5.1", vars).build().unwrap();
        assert_eq!(model.url(), "https://api.openai.com/v1/chat/completions");
        let local =
            openai_compatible("ollama", "http://localhost:11434/v1", "llama").build().unwrap();
        assert_eq!(local.info().provider, "ollama");
        assert_eq!(local.info().context_window, None);
    }
}
