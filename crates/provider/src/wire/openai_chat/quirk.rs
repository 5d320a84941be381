//! Options for the differences between servers that implement Chat Completions.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use serde::Deserialize;

use crate::wire::normalize::{CallIdRule, Charset};

/// Header in which the key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyHeader {
    /// `Authorization: Bearer`.
    #[default]
    Bearer,
    /// `api-key`, as Azure expects it.
    ApiKey,
}

impl KeyHeader {
    /// Adds the header if there is a key.
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

/// Field in which reasoning is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// `reasoning_content`, as most servers expect it.
    #[default]
    ReasoningContent,
    /// `reasoning`, as OpenRouter, Groq and vLLM expect it.
    Reasoning,
}

/// Field of the reasoning effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortField {
    /// `reasoning_effort`.
    #[default]
    ReasoningEffort,
    /// `reasoning: { effort }`.
    Reasoning,
    /// No field. The effort is not sent.
    None,
}

/// Format of call ids that a server requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdStyle {
    /// At most 40 characters, as OpenAI requires.
    #[default]
    #[serde(rename = "short")]
    Max40,
    /// Exactly nine letters and digits, as Mistral requires.
    #[serde(rename = "nine")]
    NineAlphanumeric,
}

impl CallIdStyle {
    /// Returns the rule for call ids.
    pub(super) fn rule(self) -> CallIdRule {
        match self {
            Self::Max40 => CallIdRule { charset: Charset::Any, chars_min: 1, chars_max: 40 },
            Self::NineAlphanumeric => {
                CallIdRule { charset: Charset::Alphanumeric, chars_min: 9, chars_max: 9 }
            }
        }
    }
}

/// A deployment of Azure OpenAI, for URLs that contain its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AzureDeployment {
    /// Name of the deployment.
    pub deployment: String,
    /// API version, a date such as `2024-10-21`.
    pub api_version: String,
}
