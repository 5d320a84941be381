//! Embeddings over HTTP: batches, bounds, purposes.

mod wire;

use std::fmt;
use std::sync::Arc;

use provost_core::{Env, Secret, Usage};
use provost_model::{
    EmbedFuture, Embedder, EmbedderInfo, Embeddings, ModelError, ModelErrorClass, Purpose,
    RetryPolicy, span,
};
use tracing::Instrument;

use self::wire::{Dialect, Question};
use crate::http::api::{ApiClient, ApiClientConfig, ApiRequest, VendorEndpoint};
use crate::{BuildError, Timeouts};

/// Bytes of the texts of one request; a longer text goes alone.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Begins an embedder of any server that speaks OpenAI's embeddings. It needs no key unless one is given.
///
/// `dimensions` is how many numbers the model's vectors have; an answer of another size is refused.
pub fn openai_embeddings(
    provider: impl Into<String>,
    base_url: impl Into<String>,
    model: impl Into<String>,
    dimensions: usize,
) -> HttpEmbedderBuilder {
    let (provider, base_url) = (provider.into(), base_url.into());
    builder(
        Dialect::OpenAi,
        VendorEndpoint { provider: &provider, base_url: &base_url, auth: Dialect::OpenAi.auth() },
        model,
        dimensions,
    )
}

/// Begins an embedder of Gemini. The key is usually in `GEMINI_API_KEY`.
pub fn gemini_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "https://generativelanguage.googleapis.com/v1beta";
    builder(
        Dialect::Gemini,
        VendorEndpoint { provider: "gemini", base_url, auth: Dialect::Gemini.auth() },
        model,
        dimensions,
    )
    .require_key("GEMINI_API_KEY")
}

/// Begins an embedder of an Ollama on this machine. It needs no key.
pub fn ollama_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "http://127.0.0.1:11434";
    builder(
        Dialect::Ollama,
        VendorEndpoint { provider: "ollama", base_url, auth: Dialect::Ollama.auth() },
        model,
        dimensions,
    )
}

/// Begins an embedder of Voyage. The key is usually in `VOYAGE_API_KEY`.
pub fn voyage_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "https://api.voyageai.com/v1";
    builder(
        Dialect::Voyage,
        VendorEndpoint { provider: "voyage", base_url, auth: Dialect::Voyage.auth() },
        model,
        dimensions,
    )
    .require_key("VOYAGE_API_KEY")
}

/// Begins an embedder of Cohere. The key is usually in `COHERE_API_KEY`.
pub fn cohere_embeddings(model: impl Into<String>, dimensions: usize) -> HttpEmbedderBuilder {
    let base_url = "https://api.cohere.com";
    builder(
        Dialect::Cohere,
        VendorEndpoint { provider: "cohere", base_url, auth: Dialect::Cohere.auth() },
        model,
        dimensions,
    )
    .require_key("COHERE_API_KEY")
}

fn builder(
    dialect: Dialect,
    endpoint: VendorEndpoint<'_>,
    model: impl Into<String>,
    dimensions: usize,
) -> HttpEmbedderBuilder {
    let (provider, model) = (endpoint.provider.to_owned(), model.into());
    HttpEmbedderBuilder {
        dialect,
        api: ApiClientConfig::new(endpoint),
        info: EmbedderInfo { provider, model, dimensions },
        ask_dimensions: false,
        batch_texts: dialect.texts_max(),
        document_prefix: String::new(),
        query_prefix: String::new(),
    }
}

/// Collects what an embedder needs.
#[must_use]
pub struct HttpEmbedderBuilder {
    dialect: Dialect,
    api: ApiClientConfig,
    info: EmbedderInfo,
    ask_dimensions: bool,
    batch_texts: usize,
    document_prefix: String,
    query_prefix: String,
}

impl HttpEmbedderBuilder {
    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    fn require_key(mut self, variable: &'static str) -> Self {
        self.api.key_variable = Some(variable);
        self
    }

    /// Another address.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.api.base_url = url.into();
        self
    }

    /// Adds a header to every request; its value is kept as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.api.headers.push((name.into(), value.into()));
        self
    }

    /// Asks the model for vectors of this size, for models that can shorten them.
    pub fn ask_dimensions(mut self) -> Self {
        self.ask_dimensions = true;
        self
    }

    /// Sets how many texts one request holds at most.
    pub fn batch_texts(mut self, texts: usize) -> Self {
        self.batch_texts = texts.max(1);
        self
    }

    /// Puts a text before each document and each query, for models that were trained so.
    pub fn prefixes(mut self, document: impl Into<String>, query: impl Into<String>) -> Self {
        (self.document_prefix, self.query_prefix) = (document.into(), query.into());
        self
    }

    /// Sets how long each stage may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.api.timeouts = timeouts;
        self
    }

    /// Sets how failed calls are tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.api.retry = retry;
        self
    }

    /// Takes time and chance from here.
    pub fn env(mut self, env: Env) -> Self {
        self.api.env = env;
        self
    }

    /// Checks everything and builds the embedder. Nothing is sent.
    pub fn build(self) -> Result<HttpEmbedder, BuildError> {
        if self.info.model.trim().is_empty() {
            return Err(BuildError::Model);
        }
        Ok(HttpEmbedder {
            dialect: self.dialect,
            api: Arc::new(self.api.build()?),
            info: self.info,
            ask_dimensions: self.ask_dimensions,
            batch_texts: self.batch_texts,
            document_prefix: self.document_prefix,
            query_prefix: self.query_prefix,
        })
    }
}

/// An embedder behind HTTP. Cheap to clone.
#[derive(Clone)]
pub struct HttpEmbedder {
    dialect: Dialect,
    api: Arc<ApiClient>,
    info: EmbedderInfo,
    ask_dimensions: bool,
    batch_texts: usize,
    document_prefix: String,
    query_prefix: String,
}

impl HttpEmbedder {
    async fn embed_all(
        &self,
        texts: &[String],
        purpose: Purpose,
    ) -> Result<Embeddings, ModelError> {
        if texts.iter().any(|text| text.trim().is_empty()) {
            let problem = "an empty text has no vector: leave it out";
            return Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
        }
        let prefix = match purpose {
            Purpose::Document => &self.document_prefix,
            Purpose::Query => &self.query_prefix,
        };
        let mut all = Embeddings { usage_known: true, ..Embeddings::default() };
        for batch in batches(texts, self.batch_texts) {
            let prefixed: Vec<String>;
            let batch = if prefix.is_empty() {
                batch
            } else {
                prefixed = batch.iter().map(|text| format!("{prefix}{text}")).collect();
                &prefixed
            };
            let (vectors, used) = self.embed_batch(batch, purpose).await?;
            all.vectors.extend(vectors);
            all.usage += used.unwrap_or_default();
            all.usage_known &= used.is_some();
        }
        Ok(all)
    }

    async fn embed_batch(
        &self,
        texts: &[String],
        purpose: Purpose,
    ) -> Result<(Vec<Vec<f32>>, Option<Usage>), ModelError> {
        let EmbedderInfo { model, dimensions, .. } = &self.info;
        let asked = self.ask_dimensions.then_some(*dimensions);
        let question = Question { model, texts, purpose, dimensions: asked };
        let request = ApiRequest::post(self.dialect.path(model), self.dialect.encode(question)?);
        let read = |body: &[u8]| self.dialect.decode(body, texts.len(), *dimensions);
        self.api.send(request, read).await
    }
}

impl Embedder for HttpEmbedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed<'a>(&'a self, texts: &'a [String], purpose: Purpose) -> EmbedFuture<'a> {
        Box::pin(async move {
            let span = span::embeddings(&self.info, texts.len());
            let made = self.embed_all(texts, purpose).instrument(span.clone()).await;
            span::close(&span, made.as_ref().map(Embeddings::tokens));
            made
        })
    }
}

impl fmt::Debug for HttpEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpEmbedder").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Cuts the texts into requests: so many texts, so many bytes, at least one text.
fn batches(mut texts: &[String], texts_max: usize) -> Vec<&[String]> {
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
            |texts: &[String]| batches(texts, 3).iter().map(|b| b.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&texts(&[1; 7])), [3, 3, 1]);
        let huge = BATCH_BYTES_MAX + 1;
        assert_eq!(sizes(&texts(&[1, huge, 1, 1])), [1, 1, 2]);
        assert!(sizes(&[]).is_empty());
    }
}
