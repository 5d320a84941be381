//! Model lists of providers: one request, and pure parsers of the responses.

use provost_core::{Currency, Pricing, Secret};
use provost_model::{CatalogEntry, ModelError, ModelErrorClass, ModelKind};
use serde::Deserialize;
use serde_json::Value;

use crate::ModelBuildError;
use crate::http::api::{ApiClientConfig, ApiRequest, Auth, VendorEndpoint};
use crate::wire::malformed;

/// Largest number of listed models. Further ones are ignored.
const LISTED_MAX: usize = 10_000;

/// Request for the model list of a provider.
#[must_use]
pub struct ModelListing {
    format: ListFormat,
    api: ApiClientConfig,
}

#[derive(Debug, Clone, Copy)]
enum ListFormat {
    OpenAi,
    Ollama,
    Gemini,
}

impl ModelListing {
    /// Lists the models at `<base>/models`, as OpenAI, OpenRouter and most other providers do.
    pub fn openai(provider: impl Into<String>, base_url: impl Into<String>) -> Self {
        let (provider, base_url) = (&provider.into(), &base_url.into());
        Self::new(ListFormat::OpenAi, VendorEndpoint { provider, base_url, auth: Auth::Bearer })
    }

    /// Lists the models of Anthropic at `<base>/v1/models`.
    pub fn anthropic(base_url: impl Into<String>) -> Self {
        let base_url = format!("{}/v1", base_url.into().trim_end_matches('/'));
        let mut list = Self::new(
            ListFormat::OpenAi,
            VendorEndpoint {
                provider: "anthropic",
                base_url: &base_url,
                auth: Auth::Header("x-api-key"),
            },
        );
        let version = ("anthropic-version".to_owned(), "2023-06-01".to_owned().into());
        list.api.headers.push(version);
        list
    }

    /// Lists the installed models of an Ollama server at `<base>/api/tags`.
    pub fn ollama(base_url: impl Into<String>) -> Self {
        let base_url = &base_url.into();
        Self::new(
            ListFormat::Ollama,
            VendorEndpoint { provider: "ollama", base_url, auth: Auth::Bearer },
        )
    }

    /// Lists the models of Gemini with their limits at `<base>/models`.
    pub fn gemini(base_url: impl Into<String>) -> Self {
        let (base_url, auth) = (&base_url.into(), Auth::Header("x-goog-api-key"));
        Self::new(ListFormat::Gemini, VendorEndpoint { provider: "gemini", base_url, auth })
    }

    fn new(format: ListFormat, endpoint: VendorEndpoint<'_>) -> Self {
        Self { format, api: ApiClientConfig::new(endpoint) }
    }

    /// Sets the API key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Sends the request and returns an entry for each listed model.
    pub async fn fetch(self) -> Result<Vec<CatalogEntry>, ModelError> {
        let Self { format, api } = self;
        let provider = api.provider.clone();
        let api = api.build().map_err(|error: ModelBuildError| {
            ModelError::new(ModelErrorClass::InvalidRequest, error.to_string())
        })?;
        let path = match format {
            ListFormat::OpenAi => "/models",
            ListFormat::Ollama => "/api/tags",
            ListFormat::Gemini => "/models?pageSize=1000",
        };
        api.send(ApiRequest::get(path), |body| format.parse(&provider, body)).await
    }
}

impl ListFormat {
    fn parse(self, provider: &str, body: &[u8]) -> Result<Vec<CatalogEntry>, ModelError> {
        let response: ListResponse =
            serde_json::from_slice(body).map_err(|cause| malformed("a list of models", &cause))?;
        let listed = match self {
            Self::OpenAi => response.data,
            Self::Ollama | Self::Gemini => response.models,
        };
        let Some(listed) = listed else {
            let problem = "the server sent no list of models: check the base URL";
            return Err(ModelError::new(ModelErrorClass::Malformed, problem));
        };
        Ok(listed
            .into_iter()
            .take(LISTED_MAX)
            .filter_map(|item| item.into_entry(provider))
            .collect())
    }
}

#[derive(Deserialize)]
struct ListResponse {
    data: Option<Vec<ListedModel>>,
    models: Option<Vec<ListedModel>>,
}

/// One listed model, with the fields of all vendors.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedModel {
    id: Option<String>,
    name: Option<String>,
    context_length: Option<u64>,
    context_window: Option<u64>,
    max_model_len: Option<u64>,
    max_input_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_tokens: Option<u64>,
    #[serde(rename = "inputTokenLimit")]
    input_token_limit: Option<u64>,
    #[serde(rename = "outputTokenLimit")]
    output_token_limit: Option<u64>,
    #[serde(rename = "supportedGenerationMethods")]
    methods: Vec<String>,
    pricing: Option<Value>,
    top_provider: Option<TopProvider>,
    architecture: Option<Architecture>,
}

#[derive(Deserialize)]
struct TopProvider {
    max_completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Architecture {
    #[serde(default)]
    input_modalities: Vec<String>,
}

impl ListedModel {
    fn into_entry(self, provider: &str) -> Option<CatalogEntry> {
        let name = self.id.or(self.name)?;
        let name = name.strip_prefix("models/").unwrap_or(&name);
        let mut entry = CatalogEntry::new(provider, name);
        let window = self.context_length.or(self.context_window).or(self.max_model_len);
        entry.context_window = window.or(self.max_input_tokens).or(self.input_token_limit);
        let top = self.top_provider.and_then(|top| top.max_completion_tokens);
        let output = top.or(self.max_completion_tokens).or(self.max_tokens);
        entry.max_output = output.or(self.output_token_limit);
        entry.pricing = self.pricing.as_ref().and_then(pricing);
        if self.methods.iter().any(|method| method == "embedContent") {
            entry.kind = ModelKind::Embedding;
        }
        if let Some(architecture) = self.architecture {
            let accepts =
                |name: &str| architecture.input_modalities.iter().any(|modality| modality == name);
            (entry.images, entry.audio, entry.documents) =
                (accepts("image"), accepts("audio"), accepts("file"));
        }
        Some(entry)
    }
}

/// Reads prices per token, as strings or numbers, in the format of OpenRouter. A negative price means that the price
/// varies, and is ignored.
fn pricing(listed: &Value) -> Option<Pricing> {
    let price = |name: &str| {
        let text = match listed.get(name)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Pricing::per_million(&text)
    };
    Some(Pricing {
        input: price("prompt")?,
        output: price("completion")?,
        cache_read: price("input_cache_read"),
        cache_write: price("input_cache_write"),
        reasoning: price("internal_reasoning").filter(|price| !price.is_zero()),
        currency: Currency::USD,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_whatever_they_call_things() {
        let router = br#"{"data":[{"id":"a/b","context_length":100,"pricing":{"prompt":"0.000003","completion":"0.000015","input_cache_read":"0.0000003","internal_reasoning":"0"},"top_provider":{"max_completion_tokens":50},"architecture":{"input_modalities":["text","image","file"]}},{"id":"auto","pricing":{"prompt":"-1","completion":"-1"}},{"no":"name"}]}"#;
        let listed = ListFormat::OpenAi.parse("openrouter", router).unwrap();
        assert_eq!(listed.len(), 2);
        let pricing = listed[0].pricing.unwrap();
        assert_eq!((pricing.input, pricing.output, pricing.reasoning), (3.into(), 15.into(), None));
        assert_eq!((listed[0].context_window, listed[0].max_output), (Some(100), Some(50)));
        assert_eq!(listed[0].modalities(), ["text", "image", "document"]);
        assert_eq!(listed[1].pricing, None, "a price that varies is none");
        let gemini = br#"{"models":[{"name":"models/gemini-x","inputTokenLimit":10,"outputTokenLimit":5,"supportedGenerationMethods":["generateContent"]},{"name":"models/embed","supportedGenerationMethods":["embedContent"]}]}"#;
        let listed = ListFormat::Gemini.parse("gemini", gemini).unwrap();
        assert_eq!((listed[0].model.as_str(), listed[0].context_window), ("gemini-x", Some(10)));
        assert_eq!(listed[1].kind, ModelKind::Embedding);
        for body in [&br#"{"object":"error"}"#[..], b"<html>"] {
            let error = ListFormat::OpenAi.parse("x", body).unwrap_err();
            assert_eq!(error.class, ModelErrorClass::Malformed);
        }
    }
}
