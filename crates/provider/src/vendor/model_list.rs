//! What a provider tells about its own models: one question, and pure readers of the answers.

use provost_core::{Currency, Pricing, Secret};
use provost_model::{CatalogEntry, ModelError, ModelErrorClass, ModelKind};
use serde::Deserialize;
use serde_json::Value;

use crate::BuildError;
use crate::http::api::{ApiClientConfig, ApiRequest, Auth, VendorEndpoint};
use crate::wire::malformed;

/// Models of one answer; those beyond are left out.
const LISTED_MAX: usize = 10_000;

/// The list of models of a provider that can be asked for.
#[must_use]
pub struct ModelList {
    form: Form,
    api: ApiClientConfig,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    OpenAi,
    Ollama,
    Gemini,
}

impl ModelList {
    /// The list at `<base>/models`, as OpenAI, Anthropic, OpenRouter and most others have it.
    pub fn openai(provider: impl Into<String>, base_url: impl Into<String>) -> Self {
        let (provider, base_url) = (&provider.into(), &base_url.into());
        Self::new(Form::OpenAi, VendorEndpoint { provider, base_url, auth: Auth::Bearer })
    }

    /// The list of Anthropic, at `<base>/v1/models`.
    pub fn anthropic(base_url: impl Into<String>) -> Self {
        let base_url = format!("{}/v1", base_url.into().trim_end_matches('/'));
        let mut list = Self::new(
            Form::OpenAi,
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

    /// What an Ollama has pulled, at `<base>/api/tags`.
    pub fn ollama(base_url: impl Into<String>) -> Self {
        let base_url = &base_url.into();
        Self::new(Form::Ollama, VendorEndpoint { provider: "ollama", base_url, auth: Auth::Bearer })
    }

    /// The list of Gemini, with its limits, at `<base>/models`.
    pub fn gemini(base_url: impl Into<String>) -> Self {
        let (base_url, auth) = (&base_url.into(), Auth::Header("x-goog-api-key"));
        Self::new(Form::Gemini, VendorEndpoint { provider: "gemini", base_url, auth })
    }

    fn new(form: Form, endpoint: VendorEndpoint<'_>) -> Self {
        Self { form, api: ApiClientConfig::new(endpoint) }
    }

    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Asks the provider.
    pub async fn fetch(self) -> Result<Vec<CatalogEntry>, ModelError> {
        let Self { form, api } = self;
        let provider = api.provider.clone();
        let api = api.build().map_err(|error: BuildError| {
            ModelError::new(ModelErrorClass::InvalidRequest, error.to_string())
        })?;
        let path = match form {
            Form::OpenAi => "/models",
            Form::Ollama => "/api/tags",
            Form::Gemini => "/models?pageSize=1000",
        };
        api.send(ApiRequest::get(path), |body| form.read(&provider, body)).await
    }
}

impl Form {
    fn read(self, provider: &str, body: &[u8]) -> Result<Vec<CatalogEntry>, ModelError> {
        let answer: Answer =
            serde_json::from_slice(body).map_err(|cause| malformed("a list of models", &cause))?;
        let listed = match self {
            Self::OpenAi => answer.data,
            Self::Ollama | Self::Gemini => answer.models,
        };
        let Some(listed) = listed else {
            let problem = "the server sent no list of models: check the base URL";
            return Err(ModelError::new(ModelErrorClass::Malformed, problem));
        };
        Ok(listed.into_iter().take(LISTED_MAX).filter_map(|item| item.entry(provider)).collect())
    }
}

#[derive(Deserialize)]
struct Answer {
    data: Option<Vec<Item>>,
    models: Option<Vec<Item>>,
}

/// One model, in the words of all vendors together.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
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

impl Item {
    fn entry(self, provider: &str) -> Option<CatalogEntry> {
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
            let can = |name: &str| architecture.input_modalities.iter().any(|own| own == name);
            (entry.images, entry.audio, entry.documents) =
                (can("image"), can("audio"), can("file"));
        }
        Some(entry)
    }
}

/// Prices for one token, as texts or numbers, as OpenRouter and others list them. A price below nothing means that it varies.
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
        let listed = Form::OpenAi.read("openrouter", router).unwrap();
        assert_eq!(listed.len(), 2);
        let pricing = listed[0].pricing.unwrap();
        assert_eq!((pricing.input, pricing.output, pricing.reasoning), (3.into(), 15.into(), None));
        assert_eq!((listed[0].context_window, listed[0].max_output), (Some(100), Some(50)));
        assert_eq!(listed[0].modalities(), ["text", "image", "document"]);
        assert_eq!(listed[1].pricing, None, "a price that varies is none");
        let gemini = br#"{"models":[{"name":"models/gemini-x","inputTokenLimit":10,"outputTokenLimit":5,"supportedGenerationMethods":["generateContent"]},{"name":"models/embed","supportedGenerationMethods":["embedContent"]}]}"#;
        let listed = Form::Gemini.read("gemini", gemini).unwrap();
        assert_eq!((listed[0].model.as_str(), listed[0].context_window), ("gemini-x", Some(10)));
        assert_eq!(listed[1].kind, ModelKind::Embedding);
        for body in [&br#"{"object":"error"}"#[..], b"<html>"] {
            let error = Form::OpenAi.read("x", body).unwrap_err();
            assert_eq!(error.class, ModelErrorClass::Malformed);
        }
    }
}
