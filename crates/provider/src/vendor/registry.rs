//! Registry of providers: the built-in table and files of users.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use provost_core::Secret;
use provost_model::{ModelCatalog, StructuredOutputSupport};
use serde::Deserialize;

use super::{Variables, configure_from_env};
use crate::wire::WireFormat;
use crate::wire::openai_chat::OpenAiChat;
use crate::wire::openai_responses::OpenAiResponses;
use crate::{
    Anthropic, AzureOpenAi, Bedrock, Gemini, HttpModel, HttpModelBuilder, ModelBuildError, Ollama,
    OpenAi,
};

/// The table that ships with Provost.
const TABLE: &str = include_str!("vendors.toml");

/// Error in a file of providers.
#[derive(Debug, thiserror::Error)]
pub enum ProviderRegistryError {
    /// The file is not a valid table of providers.
    #[error("the file of providers cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// Two providers have the same name or alias.
    #[error("two providers have the name `{0}`: rename one or remove its alias")]
    Duplicate(String),
    /// A name contains characters that are not allowed.
    #[error("`{0}` is not a valid name for a provider: use letters, digits, `-`, `_` and `.`")]
    Name(String),
}

/// Model providers by name and alias, with their wire, base URL and variables.
#[derive(Debug, Clone, Default)]
pub struct ProviderRegistry {
    entries: Vec<ProviderEntry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderFile {
    #[serde(default)]
    provider: Vec<ProviderEntry>,
}

/// One provider.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    wire: WireKind,
    /// Base URL. `None` uses the default of a vendor-specific wire.
    base_url: Option<String>,
    base_url_variable: Option<String>,
    key_variable: Option<String>,
    /// False for servers without a key, such as local ones.
    #[serde(default = "default_true")]
    key_required: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Support for structured output, if the catalog has none for the model.
    #[serde(default)]
    native_output: StructuredOutputSupport,
    /// Support for images. `None` keeps the value of the catalog.
    images: Option<bool>,
    #[serde(default)]
    quirks: OpenAiChat,
}

/// Default of fields that are true unless stated.
fn default_true() -> bool {
    true
}

/// Wire of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireKind {
    #[default]
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    Gemini,
    Ollama,
    Bedrock,
    Azure,
}

impl ProviderRegistry {
    /// Returns the providers that ship with Provost.
    pub fn builtin() -> &'static ProviderRegistry {
        static BUILTIN: OnceLock<ProviderRegistry> = OnceLock::new();
        // A test parses the table, so it is valid. With an empty registry no provider has a name, and the builders
        // still work.
        BUILTIN.get_or_init(|| ProviderRegistry::parse(TABLE).unwrap_or_default())
    }

    /// Parses a file of providers in the format of the built-in table. Returns an error if a name is invalid or occurs
    /// twice.
    pub fn parse(text: &str) -> Result<ProviderRegistry, ProviderRegistryError> {
        let table: ProviderFile = toml::from_str(text)?;
        let providers = Self { entries: table.provider };
        providers.validate()?;
        Ok(providers)
    }

    /// Adds the providers of another registry. They replace providers with the same name. Returns an error if an alias
    /// then occurs twice.
    pub fn with(
        mut self,
        others: ProviderRegistry,
    ) -> Result<ProviderRegistry, ProviderRegistryError> {
        self.entries.retain(|entry| others.entries.iter().all(|other| other.name != entry.name));
        self.entries.extend(others.entries);
        self.validate()?;
        Ok(self)
    }

    /// Returns the names without aliases, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Returns the name of a provider for its name or alias. `None` if it is unknown.
    pub fn resolve(&self, name: &str) -> Option<&str> {
        self.entry(name).map(|entry| entry.name.as_str())
    }

    /// Returns the variable with a provider's key. `None` if the provider is unknown or has no such variable.
    pub fn key_variable(&self, name: &str) -> Option<&str> {
        self.entry(name)?.key_variable.as_deref()
    }

    /// Builds a model such as `groq/llama-3.3-70b-versatile` with the key and the base URL from the environment.
    /// Returns an error if the provider is unknown or its key is not set.
    pub fn model(&self, name: &str) -> Result<HttpModel, ModelBuildError> {
        self.builder(name, |variable| std::env::var(variable).ok())?.build()
    }

    /// Creates a builder for a model such as `groq/llama-3.3-70b-versatile` with the key and the base URL from `vars`.
    /// The part after the first slash is the name of the model and may contain further slashes. Returns an error if the
    /// provider is unknown.
    pub fn builder(
        &self,
        name: &str,
        vars: impl Fn(&str) -> Option<String>,
    ) -> Result<HttpModelBuilder<Box<dyn WireFormat>>, ModelBuildError> {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let Some(entry) = self.entry(provider) else {
            let available = self.names().collect::<Vec<_>>().join(", ");
            return Err(ModelBuildError::Provider { name: provider.to_owned(), available });
        };
        Ok(entry.builder(model, &vars))
    }

    /// Returns the provider with this name or alias. `None` if it is unknown.
    fn entry(&self, name: &str) -> Option<&ProviderEntry> {
        let name = name.trim();
        self.entries.iter().find(|entry| entry.names().any(|candidate| candidate == name))
    }

    /// Returns an error if a name or alias is invalid or occurs twice.
    fn validate(&self) -> Result<(), ProviderRegistryError> {
        let mut seen: Vec<&str> = Vec::new();
        for name in self.entries.iter().flat_map(ProviderEntry::names) {
            let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(is_valid) {
                return Err(ProviderRegistryError::Name(name.to_owned()));
            }
            if seen.contains(&name) {
                return Err(ProviderRegistryError::Duplicate(name.to_owned()));
            }
            seen.push(name);
        }
        Ok(())
    }
}

impl ProviderEntry {
    /// Returns the name and the aliases.
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    fn builder(
        &self,
        model: &str,
        vars: &impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<Box<dyn WireFormat>> {
        let builder = match self.wire {
            WireKind::OpenaiChat => self.chat_builder(model).boxed(),
            WireKind::OpenaiResponses => {
                let provider = self.name.clone().into();
                let wire = OpenAiResponses { provider, ..OpenAiResponses::default() };
                OpenAi::responses(model).with_wire(|own| *own = wire).boxed()
            }
            WireKind::Anthropic => Anthropic::builder(model).boxed(),
            WireKind::Gemini => Gemini::builder(model).boxed(),
            WireKind::Ollama => Ollama::builder_from_vars(model, vars).boxed(),
            WireKind::Bedrock => Bedrock::builder_from_vars(model, vars).boxed(),
            WireKind::Azure => AzureOpenAi::builder_from_vars(model, vars).boxed(),
        };
        let builder = match &self.base_url {
            Some(url) => builder.base_url(url.clone()),
            None => builder,
        };
        let builder = builder.with_info(|info| {
            info.provider.clone_from(&self.name);
            if info.native_output == StructuredOutputSupport::None {
                info.native_output = self.native_output;
            }
            if let Some(images) = self.images {
                info.images = images;
            }
        });
        let builder = self.headers.iter().fold(builder, |builder, (name, value)| {
            builder.header(name.clone(), Secret::new(value.clone()))
        });
        let builder = match &self.key_variable {
            Some(variable) if self.key_required => builder.require_key(variable.clone()),
            _ => builder,
        };
        let key_variable = self.key_variable.as_deref().unwrap_or("");
        let base_url = self.base_url_variable.as_deref().unwrap_or("");
        configure_from_env(builder, Variables { key: key_variable, base_url }, vars)
    }

    /// Creates a builder for Chat Completions with the options of the provider.
    fn chat_builder(&self, model: &str) -> HttpModelBuilder<OpenAiChat> {
        let info = ModelCatalog::builtin().info(&self.name, model);
        HttpModel::builder(self.name.clone(), model, self.quirks.clone()).info(info)
    }
}

#[cfg(test)]
mod tests;
