//! Gemini, Ollama, Bedrock and Azure: vendors with special addresses or credentials.

use provost_core::Secret;
use provost_model::ModelCatalog;

use super::{Variables, configure_from_env};
use crate::wire::bedrock::{AwsCredentials, BedrockConverse};
use crate::wire::gemini::GeminiContent;
use crate::wire::ollama::OllamaChat;
use crate::wire::openai_chat::{AzureDeployment, KeyHeader, OpenAiChat};
use crate::wire::openai_responses::OpenAiResponses;
use crate::{HttpModel, HttpModelBuilder, ModelBuildError};

/// Builders of models of Google Gemini.
#[derive(Debug, Clone, Copy)]
pub struct Gemini;

impl Gemini {
    /// Default base URL.
    pub const BASE_URL: &'static str = "https://generativelanguage.googleapis.com/v1beta";
    /// Variable with the API key.
    pub const KEY_VARIABLE: &'static str = "GEMINI_API_KEY";
    /// Variable with another base URL.
    pub const BASE_URL_VARIABLE: &'static str = "GEMINI_BASE_URL";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Creates a builder for a model of Gemini. Building requires a key.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<GeminiContent> {
        let info = ModelCatalog::builtin().info("gemini", &model.into());
        HttpModel::builder("gemini", &info.model, GeminiContent::for_model(&info.model))
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
    ) -> HttpModelBuilder<GeminiContent> {
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// Builders of models on an Ollama server, over its native API.
#[derive(Debug, Clone, Copy)]
pub struct Ollama;

impl Ollama {
    /// Default base URL.
    pub const BASE_URL: &'static str = "http://127.0.0.1:11434";
    /// Variable with the API key, for servers that need one.
    pub const KEY_VARIABLE: &'static str = "OLLAMA_API_KEY";
    /// Variable with another base URL.
    pub const BASE_URL_VARIABLE: &'static str = "OLLAMA_HOST";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Creates a builder for a model on the default address of a server. A key is optional.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<OllamaChat> {
        let info = ModelCatalog::builtin().info("ollama", &model.into());
        HttpModel::builder("ollama", &info.model, OllamaChat::default())
            .info(info)
            .base_url(Self::BASE_URL)
    }

    /// Builds a model with the base URL from the environment.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, ModelBuildError> {
        Self::builder_from_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Creates a builder with the base URL from `vars`. Like the server's own variable, it may lack the scheme and the
    /// port.
    pub fn builder_from_vars(
        model: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<OllamaChat> {
        let vars = |name: &str| match name {
            Self::BASE_URL_VARIABLE => vars(name).map(|host| host_url(&host)),
            name => vars(name),
        };
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// Completes an address with the scheme and the port if they are missing.
fn host_url(host: &str) -> String {
    let host = host.trim();
    if host.is_empty() || host.contains("://") {
        return host.to_owned();
    }
    match host.rsplit_once(':') {
        Some((_, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("http://{host}")
        }
        _ => format!("http://{host}:11434"),
    }
}

/// Builders of models on Amazon Bedrock.
#[derive(Debug, Clone, Copy)]
pub struct Bedrock;

impl Bedrock {
    /// Variable with an API key, which replaces signed requests.
    pub const KEY_VARIABLE: &'static str = "AWS_BEARER_TOKEN_BEDROCK";
    /// Variable with another base URL.
    pub const BASE_URL_VARIABLE: &'static str = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };
    const REGION_DEFAULT: &'static str = "us-east-1";

    /// Creates a builder for a region. Building requires a key or signing credentials.
    pub fn builder(
        model: impl Into<String>,
        region: impl Into<String>,
    ) -> HttpModelBuilder<BedrockConverse> {
        let (info, region) =
            (ModelCatalog::builtin().info("bedrock", &model.into()), region.into());
        let url = format!("https://bedrock-runtime.{region}.amazonaws.com");
        let wire = BedrockConverse { region, ..BedrockConverse::default() };
        HttpModel::builder("bedrock", &info.model, wire).info(info).base_url(url).require_key(
            "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY,",
        )
    }

    /// Builds a model with the credentials, the region and the base URL from the environment.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, ModelBuildError> {
        Self::builder_from_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Creates a builder with the credentials, the region and the base URL from `vars`.
    pub fn builder_from_vars(
        model: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<BedrockConverse> {
        let var = |name: &str| {
            vars(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let region = var("AWS_REGION").or_else(|| var("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| Self::REGION_DEFAULT.to_owned());
        let builder = configure_from_env(Self::builder(model, region), Self::VARIABLES, &vars);
        let signing = (var("AWS_ACCESS_KEY_ID"), var("AWS_SECRET_ACCESS_KEY"));
        match (var(Self::KEY_VARIABLE), signing) {
            (None, (Some(access_key_id), Some(secret))) => builder.credentials(AwsCredentials {
                access_key_id,
                secret_access_key: Secret::new(secret),
                session_token: var("AWS_SESSION_TOKEN").map(Secret::new),
            }),
            _ => builder,
        }
    }
}

/// Builders of OpenAI models on Azure. They use OpenAI's wires with other base URLs and another key header.
#[derive(Debug, Clone, Copy)]
pub struct AzureOpenAi;

impl AzureOpenAi {
    /// Variable with the API key.
    pub const KEY_VARIABLE: &'static str = "AZURE_OPENAI_API_KEY";
    /// Variable with the endpoint of the resource.
    pub const ENDPOINT_VARIABLE: &'static str = "AZURE_OPENAI_ENDPOINT";
    /// Variable with the API version of deployment URLs.
    pub const VERSION_VARIABLE: &'static str = "AZURE_OPENAI_API_VERSION";

    /// Creates a builder for Chat Completions at the v1 URL of a resource such as `https://name.openai.azure.com`.
    pub fn builder(endpoint: &str, deployment: impl Into<String>) -> HttpModelBuilder<OpenAiChat> {
        let wire = OpenAiChat { key_header: KeyHeader::ApiKey, ..OpenAiChat::default() };
        Self::builder_for(wire, deployment.into()).base_url(v1_url(endpoint))
    }

    /// Creates a builder for Responses at the v1 URL of a resource.
    pub fn responses(
        endpoint: &str,
        deployment: impl Into<String>,
    ) -> HttpModelBuilder<OpenAiResponses> {
        let wire = OpenAiResponses {
            provider: "azure".into(),
            key_header: KeyHeader::ApiKey,
            ..OpenAiResponses::default()
        };
        Self::builder_for(wire, deployment.into()).base_url(v1_url(endpoint))
    }

    /// Creates a builder for a deployment URL, which contains the deployment and the API version.
    pub fn deployment(
        endpoint: &str,
        deployment: impl Into<String>,
        api_version: impl Into<String>,
    ) -> HttpModelBuilder<OpenAiChat> {
        let (deployment, api_version) = (deployment.into(), api_version.into());
        let azure = AzureDeployment { deployment: deployment.clone(), api_version };
        let wire = OpenAiChat {
            key_header: KeyHeader::ApiKey,
            azure: Some(azure),
            ..OpenAiChat::default()
        };
        Self::builder_for(wire, deployment).base_url(endpoint)
    }

    /// Builds a model with the key, the endpoint and the API version from the environment.
    pub fn from_env(deployment: impl Into<String>) -> Result<HttpModel, ModelBuildError> {
        Self::builder_from_vars(deployment, |name| std::env::var(name).ok()).build()
    }

    /// Creates a builder with the key, the endpoint and the API version from `vars`.
    pub fn builder_from_vars(
        deployment: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<OpenAiChat> {
        let var = |name: &str| vars(name).filter(|value| !value.trim().is_empty());
        let endpoint = var(Self::ENDPOINT_VARIABLE).unwrap_or_default();
        let builder = match var(Self::VERSION_VARIABLE) {
            Some(version) => Self::deployment(&endpoint, deployment, version),
            None => Self::builder(&endpoint, deployment),
        };
        // The base URL is already set, so no variable may replace it.
        let names = Variables { key: Self::KEY_VARIABLE, base_url: "" };
        configure_from_env(builder, names, &vars)
    }

    /// Creates a builder with the properties of the OpenAI model that has the deployment's name.
    fn builder_for<W: crate::wire::WireFormat>(wire: W, deployment: String) -> HttpModelBuilder<W> {
        // A deployment usually has the name of its model, so OpenAI's catalog entry may match.
        let mut info = ModelCatalog::builtin().info("openai", &deployment);
        info.provider = "azure".to_owned();
        HttpModel::builder("azure", deployment, wire).info(info).require_key(Self::KEY_VARIABLE)
    }
}

fn v1_url(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    match endpoint.is_empty() || endpoint.ends_with("/openai/v1") {
        true => endpoint.to_owned(),
        false => format!("{endpoint}/openai/v1"),
    }
}
