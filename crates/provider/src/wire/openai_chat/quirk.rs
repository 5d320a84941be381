//! Where servers that speak Chat Completions differ from each other.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use serde::Deserialize;

use crate::wire::transcript::{Charset, IdRule};

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// As `Authorization: Bearer`.
    #[default]
    Bearer,
    /// As `api-key`, which Azure wants.
    ApiKey,
}

impl KeyHeader {
    /// Adds the header, if there is a key.
    pub(crate) fn write(
        self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        let Some(key) = key else {
            return Ok(());
        };
        let (name, value) = match self {
            Self::Bearer => (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {key}"))),
            Self::ApiKey => (HeaderName::from_static("api-key"), HeaderValue::try_from(key)),
        };
        let mut value = value?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }
}

/// What the field is called in which reasoning goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// As most servers call it.
    #[default]
    ReasoningContent,
    /// As OpenRouter, Groq and vLLM call it.
    Reasoning,
}

/// How the effort of a request is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// As `reasoning_effort`.
    #[default]
    ReasoningEffort,
    /// As `reasoning: { effort }`.
    Reasoning,
    /// Not at all.
    None,
}

/// What ids of calls must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// At most 40 characters, which OpenAI wants.
    #[default]
    Short,
    /// Nine letters and digits, which Mistral wants.
    Nine,
}

impl CallIds {
    pub(super) fn rule(self) -> IdRule {
        match self {
            Self::Short => IdRule { charset: Charset::Any, chars_min: 1, chars_max: 40 },
            Self::Nine => IdRule { charset: Charset::Alphanumeric, chars_min: 9, chars_max: 9 },
        }
    }
}

/// A deployment of Azure OpenAI, for addresses that hold its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AzureDeployment {
    /// What it is called.
    pub deployment: String,
    /// The version of the protocol, a date such as `2024-10-21`.
    pub api_version: String,
}
