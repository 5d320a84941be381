//! Providers by name, as data: those that ship with Provost, and those of a user's own file.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use provost_core::Secret;
use provost_model::{Catalog, NativeOutput};
use serde::Deserialize;

use super::{Variables, configure_from_env};
use crate::wire::Wire;
use crate::wire::openai_chat::OpenAiChat;
use crate::wire::openai_responses::OpenAiResponses;
use crate::{
    Anthropic, AzureOpenAi, Bedrock, BuildError, Gemini, HttpModel, HttpModelBuilder, Ollama,
    OpenAi,
};

/// The table that ships with Provost.
const TABLE: &str = include_str!("vendors.toml");

/// Why a file of providers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// It is no such file.
    #[error("the file of providers cannot be read: {0}")]
    Syntax(#[from] toml::de::Error),
    /// Two providers want the same name.
    #[error("two providers are called `{0}`: rename one or take its alias away")]
    Duplicate(String),
    /// A name that cannot be said before a slash.
    #[error("`{0}` is no name for a provider: use letters, digits, `-`, `_` and `.`")]
    Name(String),
}

/// Providers by name and alias.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    provider: Vec<Entry>,
}

/// One provider.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    wire: WireName,
    /// Where it is; the wires with a vendor of their own know it.
    base_url: Option<String>,
    base_url_variable: Option<String>,
    key_variable: Option<String>,
    /// False for servers that need no key, such as those on the same machine.
    #[serde(default = "yes")]
    key_required: bool,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// How models of it can be held to a schema, unless the catalog knows better.
    #[serde(default)]
    native_output: NativeOutput,
    /// False if its models see no images.
    images: Option<bool>,
    #[serde(default)]
    quirks: OpenAiChat,
}

fn yes() -> bool {
    true
}

/// The protocol a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WireName {
    #[default]
    OpenaiChat,
    OpenaiResponses,
    Anthropic,
    Gemini,
    Ollama,
    Bedrock,
    Azure,
}

impl Providers {
    /// The providers that ship with Provost.
    pub fn builtin() -> &'static Providers {
        static BUILTIN: OnceLock<Providers> = OnceLock::new();
        // A test reads the table, so it cannot be broken; without it no provider has a name, and builders still work.
        BUILTIN.get_or_init(|| Providers::parse(TABLE).unwrap_or_default())
    }

    /// Reads a file of one's own, in the form of the one that ships.
    pub fn parse(text: &str) -> Result<Providers, ProvidersError> {
        let table: Table = toml::from_str(text)?;
        let providers = Self { entries: table.provider };
        providers.check()?;
        Ok(providers)
    }

    /// These and others; where both have one of the same name, the other's counts.
    pub fn with(mut self, others: Providers) -> Result<Providers, ProvidersError> {
        self.entries.retain(|entry| others.entries.iter().all(|other| other.name != entry.name));
        self.entries.extend(others.entries);
        self.check()?;
        Ok(self)
    }

    /// The names, without aliases, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The provider's own name for a name or an alias.
    pub fn resolve(&self, name: &str) -> Option<&str> {
        self.entry(name).map(|entry| entry.name.as_str())
    }

    /// The variable that holds a provider's key.
    pub fn key_variable(&self, name: &str) -> Option<&str> {
        self.entry(name)?.key_variable.as_deref()
    }

    /// A model such as `groq/llama-3.3-70b-versatile`, with the key and the address that the environment names.
    pub fn model(&self, name: &str) -> Result<HttpModel, BuildError> {
        self.builder(name, |variable| std::env::var(variable).ok())?.build()
    }

    /// Begins a model such as `groq/llama-3.3-70b-versatile`, with the key and the address that `vars` names. What follows
    /// the first slash is the model's name, other slashes and all.
    pub fn builder(
        &self,
        name: &str,
        vars: impl Fn(&str) -> Option<String>,
    ) -> Result<HttpModelBuilder<Box<dyn Wire>>, BuildError> {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let Some(entry) = self.entry(provider) else {
            let known = self.names().collect::<Vec<_>>().join(", ");
            return Err(BuildError::Provider { name: provider.to_owned(), known });
        };
        Ok(entry.builder(model, &vars))
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let name = name.trim();
        self.entries.iter().find(|entry| entry.names().any(|known| known == name))
    }

    fn check(&self) -> Result<(), ProvidersError> {
        let mut seen: Vec<&str> = Vec::new();
        for name in self.entries.iter().flat_map(Entry::names) {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(fits) {
                return Err(ProvidersError::Name(name.to_owned()));
            }
            if seen.contains(&name) {
                return Err(ProvidersError::Duplicate(name.to_owned()));
            }
            seen.push(name);
        }
        Ok(())
    }
}

impl Entry {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    fn builder(
        &self,
        model: &str,
        vars: &impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<Box<dyn Wire>> {
        let builder = match self.wire {
            WireName::OpenaiChat => self.chat(model).boxed(),
            WireName::OpenaiResponses => {
                let provider = self.name.clone().into();
                let wire = OpenAiResponses { provider, ..OpenAiResponses::default() };
                OpenAi::responses(model).with_wire(|own| *own = wire).boxed()
            }
            WireName::Anthropic => Anthropic::builder(model).boxed(),
            WireName::Gemini => Gemini::builder(model).boxed(),
            WireName::Ollama => Ollama::with_vars(model, vars).boxed(),
            WireName::Bedrock => Bedrock::with_vars(model, vars).boxed(),
            WireName::Azure => AzureOpenAi::with_vars(model, vars).boxed(),
        };
        let builder = match &self.base_url {
            Some(url) => builder.base_url(url.clone()),
            None => builder,
        };
        let builder = builder.with_info(|info| {
            info.provider.clone_from(&self.name);
            if info.native_output == NativeOutput::None {
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

    fn chat(&self, model: &str) -> HttpModelBuilder<OpenAiChat> {
        let info = Catalog::builtin().info(&self.name, model);
        HttpModel::builder(self.name.clone(), model, self.quirks.clone()).info(info)
    }
}

#[cfg(test)]
mod tests;
