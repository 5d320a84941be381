//! Embeddings over the one transport: batches, bounds, retries.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use provost_core::limits::RESPONSE_BYTES_MAX;
use provost_core::{Env, Secret, Usage};
use tokio::time::{Instant, sleep, timeout_at};

use super::wire::{self, OpenAiEmbeddings};
use super::{EmbedFuture, Embedder, EmbedderInfo, Embeddings, Purpose};
use crate::http::answer::Body;
use crate::http::{Endpoint, later, send};
use crate::{
    BuildError, HttpModel, HttpModelBuilder, ModelError, ModelErrorClass, RetryPolicy, Timeouts,
};

/// Texts in one request unless the builder says otherwise.
const BATCH_TEXTS_DEFAULT: usize = 128;
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
    let (provider, model) = (provider.into(), model.into());
    let http = HttpModel::builder(provider.clone(), model.clone(), OpenAiEmbeddings);
    HttpEmbedderBuilder {
        http: http.base_url(base_url),
        info: EmbedderInfo { provider, model, dimensions },
        ask_dimensions: false,
        batch_texts: BATCH_TEXTS_DEFAULT,
        document_prefix: String::new(),
        query_prefix: String::new(),
    }
}

/// Collects what an embedder needs.
#[must_use]
pub struct HttpEmbedderBuilder {
    http: HttpModelBuilder<OpenAiEmbeddings>,
    info: EmbedderInfo,
    ask_dimensions: bool,
    batch_texts: usize,
    document_prefix: String,
    query_prefix: String,
}

impl HttpEmbedderBuilder {
    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.http = self.http.api_key(key);
        self
    }

    /// Adds a header to every request; its value is kept as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.http = self.http.header(name, value);
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
        self.http = self.http.timeouts(timeouts);
        self
    }

    /// Sets how failed calls are tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.http = self.http.retry(retry);
        self
    }

    /// Takes time and chance from here.
    pub fn env(mut self, env: Env) -> Self {
        self.http = self.http.env(env);
        self
    }

    /// Checks everything and builds the embedder. Nothing is sent.
    pub fn build(self) -> Result<HttpEmbedder, BuildError> {
        Ok(HttpEmbedder {
            endpoint: self.http.build()?.into_endpoint(),
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
    endpoint: Arc<Endpoint>,
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
            let (vectors, used) = self.embed_batch(batch).await?;
            all.vectors.extend(vectors);
            all.usage += Usage::new(used.unwrap_or(0), 0);
            all.usage_known &= used.is_some();
        }
        Ok(all)
    }

    /// One request, tried again as the policy says.
    async fn embed_batch(
        &self,
        texts: &[String],
    ) -> Result<(Vec<Vec<f32>>, Option<u64>), ModelError> {
        let dimensions = self.ask_dimensions.then_some(self.info.dimensions);
        let body = Bytes::from(wire::encode(&self.info.model, texts, dimensions)?);
        let endpoint = &self.endpoint;
        let total = endpoint.timeouts.total;
        let deadline = total.and_then(|total| Instant::now().checked_add(total));
        let mut retries = 0;
        loop {
            let asked = self.ask(body.clone(), deadline).await;
            let read =
                asked.and_then(|answer| wire::decode(&answer, texts.len(), self.info.dimensions));
            let error = match read {
                Ok(read) => return Ok(read),
                Err(error) => send::without_secrets(endpoint, error),
            };
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            let chance = endpoint.env.random_unit();
            match endpoint.retry.decide(&error, retries, left, chance) {
                Some(delay) => sleep(delay).await,
                None => return Err(error),
            }
            retries += 1;
        }
    }

    async fn ask(&self, body: Bytes, deadline: Option<Instant>) -> Result<Vec<u8>, ModelError> {
        let endpoint = &self.endpoint;
        let sending = send::send(endpoint, body);
        let first_byte = later(Instant::now(), endpoint.timeouts.first_byte);
        let until = deadline.map_or(first_byte, |deadline| deadline.min(first_byte));
        let answer = match timeout_at(until, sending).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(send::transport_error(endpoint, error)),
            Err(_) if deadline.is_some_and(|deadline| deadline <= until) => {
                return Err(send::deadline_error());
            }
            Err(_) => return Err(send::first_byte_error(endpoint)),
        };
        if !answer.status.is_success() {
            return Err(send::refusal(Arc::clone(endpoint), answer, deadline).await);
        }
        self.read(answer.body, deadline).await
    }

    async fn read(&self, mut body: Body, deadline: Option<Instant>) -> Result<Vec<u8>, ModelError> {
        let endpoint = &self.endpoint;
        let mut read = Vec::new();
        loop {
            let idle = later(Instant::now(), endpoint.timeouts.idle);
            let until = deadline.map_or(idle, |deadline| deadline.min(idle));
            let Ok(bytes) = timeout_at(until, poll_fn(|cx| body.poll_bytes(cx))).await else {
                return Err(send::deadline_error());
            };
            let bytes = match bytes {
                None => return Ok(read),
                Some(Ok(bytes)) => bytes,
                Some(Err(error)) => return Err(send::transport_error(endpoint, error)),
            };
            if read.len() + bytes.len() > RESPONSE_BYTES_MAX {
                let problem =
                    format!("the provider sent an answer of more than {RESPONSE_BYTES_MAX} bytes");
                return Err(ModelError::new(ModelErrorClass::Malformed, problem));
            }
            read.extend_from_slice(&bytes);
        }
    }
}

impl Embedder for HttpEmbedder {
    fn info(&self) -> &EmbedderInfo {
        &self.info
    }

    fn embed<'a>(&'a self, texts: &'a [String], purpose: Purpose) -> EmbedFuture<'a> {
        Box::pin(self.embed_all(texts, purpose))
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
