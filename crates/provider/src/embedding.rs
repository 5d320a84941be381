//! HTTP clients of embedding APIs.

mod wire;

use std::fmt;
use std::sync::Arc;

use provost_core::{Env, Secret, Usage};
use provost_model::{
    EmbedFuture, Embedder, EmbedderInfo, EmbeddingInputType, Embeddings, ModelError,
    ModelErrorClass, RetryPolicy, span,
};
use tracing::Instrument;

use self::wire::{EmbedFormat, EmbedRequest};
use crate::http::api::{ApiClient, ApiClientConfig, ApiRequest, VendorEndpoint};
use crate::{ModelBuildError, Timeouts};

/// Largest size of the texts in one request, in bytes. A longer text is sent alone.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Creates a builder for a server with OpenAI's embeddings API. A key is optional.
///
/// `dimensions` is the size of the model's vectors. A response with another size is an error.
pub fn openai_embeddings(
    provider: impl Into<String>,
    base_url: impl Into<String>,
    model: impl Into<String>,
    dimensions: usize,
) -> HttpEmbedderBuilder {
    let (provider, base_url) = (provider.into(), base_url.into());
    builder(
        EmbedFormat::OpenAi,
        VendorEndpoint {
            provider: &provider,
            base_url: &base_url,
            auth: EmbedFormat::OpenAi.auth(),
        },
        model,
        dimensions,
    )
}

/// Creates a builder for Gemini. The key is usually in `GEMINI_API_KEY`.
pub fn gemini_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "https://generativelanguage.googleapis.com/v1beta";
    builder(
        EmbedFormat::Gemini,
        VendorEndpoint { provider: "gemini", base_url, auth: EmbedFormat::Gemini.auth() },
        model,
        dimensions,
    )
    .require_key("GEMINI_API_KEY")
}

/// Creates a builder for an Ollama server on this machine. A key is optional.
pub fn ollama_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "http://127.0.0.1:11434";
    builder(
        EmbedFormat::Ollama,
        VendorEndpoint { provider: "ollama", base_url, auth: EmbedFormat::Ollama.auth() },
        model,
        dimensions,
    )
}

/// Creates a builder for Voyage. The key is usually in `VOYAGE_API_KEY`.
pub fn voyage_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "https://api.voyageai.com/v1";
    builder(
        EmbedFormat::Voyage,
        VendorEndpoint { provider: "voyage", base_url, auth: EmbedFormat::Voyage.auth() },
        model,
        dimensions,
    )
    .require_key("VOYAGE_API_KEY")
}

/// Creates a builder for Cohere. The key is usually in `COHERE_API_KEY`.
pub fn cohere_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "https://api.cohere.com";
    builder(
        EmbedFormat::Cohere,
        VendorEndpoint { provider: "cohere", base_url, auth: EmbedFormat::Cohere.auth() },
        model,
        dimensions,
    )
    .require_key("COHERE_API_KEY")
}

/// Creates a builder with the default options of a format.
fn builder(
    format: EmbedFormat,
    endpoint: VendorEndpoint<'_>,
    model: impl Into<String>,
    dimensions: usize,
) -> HttpEmbedderBuilder {
    let (provider, model) = (endpoint.provider.to_owned(), model.into());
    HttpEmbedderBuilder {
        format,
        api: ApiClientConfig::new(endpoint),
        info: EmbedderInfo { provider, model, dimensions },
        request_dimensions: false,
        batch_texts: format.texts_max(),
        document_prefix: String::new(),
        query_prefix: String::new(),
    }
}

/// Builder of an [`HttpEmbedder`].
#[must_use]
pub struct HttpEmbedderBuilder {
    format: EmbedFormat,
    api: ApiClientConfig,
    info: EmbedderInfo,
    request_dimensions: bool,
    batch_texts: usize,
    document_prefix: String,
    query_prefix: String,
}

impl HttpEmbedderBuilder {
    /// Sets the API key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Makes [`build`](Self::build) fail without a key. The error names the environment variable.
    fn require_key(mut self, variable: &'static str) -> Self {
        self.api.key_variable = Some(variable);
        self
    }

    /// Sets the base URL.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.api.base_url = url.into();
        self
    }

    /// Adds a header to every request. Its value is treated as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.api.headers.push((name.into(), value.into()));
        self
    }

    /// Requests vectors of the configured size, for models that can shorten them.
    pub fn request_dimensions(mut self) -> Self {
        self.request_dimensions = true;
        self
    }

    /// Sets the largest number of texts in one request. Zero counts as one.
    pub fn batch_texts(mut self, texts: usize) -> Self {
        self.batch_texts = texts.max(1);
        self
    }

    /// Sets prefixes for documents and queries, for models that were trained with them.
    pub fn prefixes(mut self, document: impl Into<String>, query: impl Into<String>) -> Self {
        (self.document_prefix, self.query_prefix) = (document.into(), query.into());
        self
    }

    /// Sets the time limits of each request.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.api.timeouts = timeouts;
        self
    }

    /// Sets the policy for retries.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.api.retry = retry;
        self
    }

    /// Sets the source of time and random numbers, from which retry delays take their jitter.
    pub fn env(mut self, env: Env) -> Self {
        self.api.env = env;
        self
    }

    /// Validates the configuration and builds the embedder. Sends no request.
    pub fn build(self) -> Result<HttpEmbedder, ModelBuildError> {
        if self.info.model.trim().is_empty() {
            return Err(ModelBuildError::Model);
        }
        Ok(HttpEmbedder {
            format: self.format,
            api: Arc::new(self.api.build()?),
            info: self.info,
            request_dimensions: self.request_dimensions,
            batch_texts: self.batch_texts,
            document_prefix: self.document_prefix,
            query_prefix: self.query_prefix,
        })
    }
}

/// Embedder that calls a vendor's API over HTTP. Clones are cheap and share connections.
#[derive(Clone)]
pub struct HttpEmbedder {
    format: EmbedFormat,
    api: Arc<ApiClient>,
    info: EmbedderInfo,
    request_dimensions: bool,
    batch_texts: usize,
    document_prefix: String,
    query_prefix: String,
}

impl HttpEmbedder {
    /// Embeds the texts in several requests, one after the other. Returns an error if a text is empty or a request
    /// fails.
    async fn embed_all(
        &self,
        texts: &[String],
        input_type: EmbeddingInputType,
    ) -> Result<Embeddings, ModelError> {
        if texts.iter().any(|text| text.trim().is_empty()) {
            let problem = "an empty text cannot be embedded: remove it";
            return Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
        }
        let prefix = match input_type {
            EmbeddingInputType::Document => &self.document_prefix,
            EmbeddingInputType::Query => &self.query_prefix,
        };
        let mut all = Embeddings { usage_known: true, ..Embeddings::default() };
        for batch in split_batches(texts, self.batch_texts) {
            let prefixed: Vec<String>;
            let batch = if prefix.is_empty() {
                batch
            } else {
                prefixed = batch.iter().map(|text| format!("{prefix}{text}")).collect();
                &prefixed
            };
            let (vectors, usage) = self.embed_batch(batch, input_type).await?;
            all.vectors.extend(vectors);
            all.usage += usage.unwrap_or_default();
            all.usage_known &= usage.is_some();
        }
        Ok(all)
    }

    /// Embeds texts with one request. Returns their vectors in the order of the texts, and the usage if the vendor
    /// reported it.
    async fn embed_batch(
        &self,
        texts: &[String],
        input_type: EmbeddingInputType,
    ) -> Result<(Vec<Vec<f32>>, Option<Usage>), ModelError> {
        let EmbedderInfo { model, dimensions, .. } = &self.info;
        let requested = self.request_dimensions.then_some(*dimensions);
        let embed_request = EmbedRequest { model, texts, input_type, dimensions: requested };
        let request = ApiRequest::post(self.format.path(model), self.format.encode(embed_request)?);
        let read = |body: &[u8]| self.format.decode(body, texts.len(), *dimensions);
        self.api.send(request, read).await
    }
}

impl Embedder for HttpEmbedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed<'a>(&'a self, texts: &'a [String], input_type: EmbeddingInputType) -> EmbedFuture<'a> {
        Box::pin(async move {
            let span = span::embeddings(&self.info, texts.len());
            let result = self.embed_all(texts, input_type).instrument(span.clone()).await;
            span::record_result(&span, result.as_ref().map(Embeddings::tokens));
            result
        })
    }
}

impl fmt::Debug for HttpEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEmbedder").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Splits the texts into requests with limits of texts and bytes. Each request has at least one text.
fn split_batches(mut texts: &[String], texts_max: usize) -> Vec<&[String]> {
    let mut batches = Vec::new();
    while !texts.is_empty() {
        let mut bytes = 0;
        let fit = texts.iter().take(texts_max).take_while(|text| {
            bytes += text.len();
            bytes <= BATCH_BYTES_MAX
        });
        let (batch, rest) = texts.split_at(fit.count().max(1));
        batches.push(batch);
        texts = rest;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_number_and_by_bytes() {
        let texts =
            |sizes: &[usize]| sizes.iter().map(|size| "x".repeat(*size)).collect::<Vec<_>>();
        let sizes =
            |texts: &[String]| split_batches(texts, 3).iter().map(|b| b.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&texts(&[1; 7])), [3, 3, 1]);
        let huge = BATCH_BYTES_MAX + 1;
        assert_eq!(sizes(&texts(&[1, huge, 1, 1])), [1, 1, 2]);
        assert!(sizes(&[]).is_empty());
    }
}
