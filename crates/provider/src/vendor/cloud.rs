//! Gemini, Ollama, Bedrock and Azure: providers whose addresses or credentials are their own.

use provost_core::Secret;
use provost_model::Catalog;

use super::{Variables, configure_from_env};
use crate::wire::bedrock::{AwsCredentials, BedrockConverse};
use crate::wire::gemini::GeminiContent;
use crate::wire::ollama::OllamaChat;
use crate::wire::openai_chat::{AzureDeployment, KeyHeader, OpenAiChat};
use crate::wire::openai_responses::OpenAiResponses;
use crate::{BuildError, HttpModel, HttpModelBuilder};

/// Google's Gemini.
#[derive(Debug, Clone, Copy)]
pub struct Gemini;

impl Gemini {
    /// Where it is.
    pub const BASE_URL: &'static str = "https://generativelanguage.googleapis.com/v1beta";
    /// The variable that holds the key.
    pub const KEY_VARIABLE: &'static str = "GEMINI_API_KEY";
    /// The variable that holds another address.
    pub const BASE_URL_VARIABLE: &'static str = "GEMINI_BASE_URL";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Begins a model.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<GeminiContent> {
        let info = Catalog::builtin().info("gemini", &model.into());
        HttpModel::builder("gemini", &info.model, GeminiContent::for_model(&info.model))
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
    ) -> HttpModelBuilder<GeminiContent> {
        configure_from_env(Self::builder(model), Self::VARIABLES, vars)
    }
}

/// A server of Ollama, over its own API.
#[derive(Debug, Clone, Copy)]
pub struct Ollama;

impl Ollama {
    /// Where it is unless somebody says otherwise.
    pub const BASE_URL: &'static str = "http://127.0.0.1:11434";
    /// The variable that holds the key, for servers behind one.
    pub const KEY_VARIABLE: &'static str = "OLLAMA_API_KEY";
    /// The variable that holds another address.
    pub const BASE_URL_VARIABLE: &'static str = "OLLAMA_HOST";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };

    /// Begins a model.
    pub fn builder(model: impl Into<String>) -> HttpModelBuilder<OllamaChat> {
        let info = Catalog::builtin().info("ollama", &model.into());
        HttpModel::builder("ollama", &info.model, OllamaChat::default())
            .info(info)
            .base_url(Self::BASE_URL)
    }

    /// A model at the address that the environment names.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, BuildError> {
        Self::with_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Begins a model at the address that `vars` names, which may lack its scheme and its port as the server's own may.
    pub fn with_vars(
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

/// Amazon's Bedrock.
#[derive(Debug, Clone, Copy)]
pub struct Bedrock;

impl Bedrock {
    /// The variable that holds a key, for those who have one and sign nothing.
    pub const KEY_VARIABLE: &'static str = "AWS_BEARER_TOKEN_BEDROCK";
    /// The variable that holds another address.
    pub const BASE_URL_VARIABLE: &'static str = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME";
    const VARIABLES: Variables<'static> =
        Variables { key: Self::KEY_VARIABLE, base_url: Self::BASE_URL_VARIABLE };
    const REGION_DEFAULT: &'static str = "us-east-1";

    /// Begins a model in a region. It needs a key, or credentials that sign.
    pub fn builder(
        model: impl Into<String>,
        region: impl Into<String>,
    ) -> HttpModelBuilder<BedrockConverse> {
        let (info, region) = (Catalog::builtin().info("bedrock", &model.into()), region.into());
        let url = format!("https://bedrock-runtime.{region}.amazonaws.com");
        let wire = BedrockConverse { region, ..BedrockConverse::default() };
        HttpModel::builder("bedrock", &info.model, wire).info(info).base_url(url).require_key(
            "AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY,",
        )
    }

    /// A model with the credentials, the region and the address that the environment names.
    pub fn from_env(model: impl Into<String>) -> Result<HttpModel, BuildError> {
        Self::with_vars(model, |name| std::env::var(name).ok()).build()
    }

    /// Begins a model with the credentials, the region and the address that `vars` names.
    pub fn with_vars(
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

/// OpenAI's models at Azure: the same wires, another address and another header.
#[derive(Debug, Clone, Copy)]
pub struct AzureOpenAi;

impl AzureOpenAi {
    /// The variable that holds the key.
    pub const KEY_VARIABLE: &'static str = "AZURE_OPENAI_API_KEY";
    /// The variable that holds the address of the resource.
    pub const ENDPOINT_VARIABLE: &'static str = "AZURE_OPENAI_ENDPOINT";
    /// The variable that holds the version of the older addresses.
    pub const VERSION_VARIABLE: &'static str = "AZURE_OPENAI_API_VERSION";

    /// Begins a model over Chat Completions at the v1 address of a resource such as `https://name.openai.azure.com`.
    pub fn builder(endpoint: &str, deployment: impl Into<String>) -> HttpModelBuilder<OpenAiChat> {
        let wire = OpenAiChat { key_header: KeyHeader::ApiKey, ..OpenAiChat::default() };
        Self::begin(wire, deployment.into()).base_url(v1_url(endpoint))
    }

    /// Begins a model over Responses at the v1 address of a resource.
    pub fn responses(
        endpoint: &str,
        deployment: impl Into<String>,
    ) -> HttpModelBuilder<OpenAiResponses> {
        let wire = OpenAiResponses {
            provider: "azure".into(),
            key_header: KeyHeader::ApiKey,
            ..OpenAiResponses::default()
        };
        Self::begin(wire, deployment.into()).base_url(v1_url(endpoint))
    }

    /// Begins a model at an older address, which holds the deployment and the version of the protocol.
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
        Self::begin(wire, deployment).base_url(endpoint)
    }

    /// A model with the key, the address and the version that the environment names.
    pub fn from_env(deployment: impl Into<String>) -> Result<HttpModel, BuildError> {
        Self::with_vars(deployment, |name| std::env::var(name).ok()).build()
    }

    /// Begins a model with the key, the address and the version that `vars` names.
    pub fn with_vars(
        deployment: impl Into<String>,
        vars: impl Fn(&str) -> Option<String>,
    ) -> HttpModelBuilder<OpenAiChat> {
        let var = |name: &str| vars(name).filter(|value| !value.trim().is_empty());
        let endpoint = var(Self::ENDPOINT_VARIABLE).unwrap_or_default();
        let builder = match var(Self::VERSION_VARIABLE) {
            Some(version) => Self::deployment(&endpoint, deployment, version),
            None => Self::builder(&endpoint, deployment),
        };
        // The address is set already, so no second variable is asked for.
        let names = Variables { key: Self::KEY_VARIABLE, base_url: "" };
        configure_from_env(builder, names, &vars)
    }

    fn begin<W: crate::wire::Wire>(wire: W, deployment: String) -> HttpModelBuilder<W> {
        // A deployment is usually called what its model is called, so the catalog of the models' maker may know it.
        let mut info = Catalog::builtin().info("openai", &deployment);
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
