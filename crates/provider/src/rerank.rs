//! The rerankers of Voyage and Cohere.

use std::fmt;

use provost_core::{Secret, Usage};
use provost_model::{
    ModelError, ModelErrorClass, Ranked, Ranking, RerankFuture, Reranker, RerankerInfo,
    RetryPolicy, gen_ai, span,
};
use serde::{Deserialize, Serialize};
use tracing::{Instrument, field::Empty, info_span};

use crate::http::api::{
    ApiClient, ApiClientConfig, ApiRequest, Auth, VendorEndpoint, json, malformed_error,
};
use crate::wire::malformed;
use crate::{BuildError, Timeouts};

/// Documents of one request, as both vendors bound it.
const DOCUMENTS_MAX: usize = 1000;

#[derive(Debug, Clone, Copy)]
enum Vendor {
    Voyage,
    Cohere,
}

/// Begins a reranker of Voyage. The key is usually in `VOYAGE_API_KEY`.
pub fn voyage_reranker(model: impl Into<String>) -> HttpRerankerBuilder {
    let base_url = "https://api.voyageai.com/v1";
    let endpoint = VendorEndpoint { provider: "voyage", base_url, auth: Auth::Bearer };
    builder(Vendor::Voyage, endpoint, "VOYAGE_API_KEY", model)
}

/// Begins a reranker of Cohere. The key is usually in `COHERE_API_KEY`.
pub fn cohere_reranker(model: impl Into<String>) -> HttpRerankerBuilder {
    let base_url = "https://api.cohere.com";
    let endpoint = VendorEndpoint { provider: "cohere", base_url, auth: Auth::Bearer };
    builder(Vendor::Cohere, endpoint, "COHERE_API_KEY", model)
}

fn builder(
    vendor: Vendor,
    endpoint: VendorEndpoint<'_>,
    variable: &'static str,
    model: impl Into<String>,
) -> HttpRerankerBuilder {
    let mut api = ApiClientConfig::new(endpoint);
    api.key_variable = Some(variable);
    let info = RerankerInfo { provider: endpoint.provider.to_owned(), model: model.into() };
    HttpRerankerBuilder { vendor, api, info }
}

/// Collects what a reranker needs.
#[must_use]
pub struct HttpRerankerBuilder {
    vendor: Vendor,
    api: ApiClientConfig,
    info: RerankerInfo,
}

impl HttpRerankerBuilder {
    /// The key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Another address.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.api.base_url = url.into();
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

    /// Checks everything and builds the reranker. Nothing is sent.
    pub fn build(self) -> Result<HttpReranker, BuildError> {
        if self.info.model.trim().is_empty() {
            return Err(BuildError::Model);
        }
        let Self { vendor, api, info } = self;
        Ok(HttpReranker { vendor, api: api.build()?, info })
    }
}

/// A reranker behind HTTP.
pub struct HttpReranker {
    vendor: Vendor,
    api: ApiClient,
    info: RerankerInfo,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    /// Voyage calls it `data`.
    #[serde(alias = "data")]
    results: Vec<Item>,
    usage: Option<Used>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    relevance_score: f64,
}

#[derive(Deserialize)]
struct Used {
    total_tokens: Option<u64>,
}

impl HttpReranker {
    async fn ask(
        &self,
        query: &str,
        documents: &[String],
        top: Option<usize>,
    ) -> Result<Ranking, ModelError> {
        if documents.is_empty() || top == Some(0) {
            return Ok(Ranking { usage_known: true, ..Ranking::default() });
        }
        if documents.len() > DOCUMENTS_MAX {
            let problem = format!("a ranking takes at most {DOCUMENTS_MAX} documents: give fewer");
            return Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
        }
        let (path, top_k, top_n) = match self.vendor {
            Vendor::Voyage => ("/rerank", top, None),
            Vendor::Cohere => ("/v2/rerank", None, top),
        };
        let body = Body { model: &self.info.model, query, documents, top_k, top_n };
        let read = |answer: &[u8]| decode(answer, documents.len());
        self.api.send(ApiRequest::post(path, json(&body)?), read).await
    }
}

fn decode(body: &[u8], documents: usize) -> Result<Ranking, ModelError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|cause| malformed("a ranking", &cause))?;
    let mut seen = vec![false; documents];
    let mut ranked = Vec::with_capacity(answer.results.len());
    for Item { index, relevance_score: score } in answer.results {
        match seen.get_mut(index) {
            Some(seen) if !*seen && score.is_finite() => *seen = true,
            _ => {
                return Err(malformed_error(
                    "the provider ranked a document that is none, or one twice",
                ));
            }
        }
        ranked.push(Ranked { index, score });
    }
    ranked.sort_by(|one, other| other.score.total_cmp(&one.score));
    let tokens = answer.usage.and_then(|used| used.total_tokens);
    let usage = Usage::new(tokens.unwrap_or_default(), 0);
    Ok(Ranking { ranked, usage, usage_known: tokens.is_some() })
}

impl Reranker for HttpReranker {
    fn info(&self) -> &RerankerInfo {
        &self.info
    }

    fn rerank<'a>(
        &'a self,
        query: &'a str,
        documents: &'a [String],
        top: Option<usize>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            let span = info_span!(
                "rerank",
                otel.name = %format_args!("rerank {}", self.info.model),
                otel.kind = "client",
                otel.status_code = Empty,
                { gen_ai::OPERATION_NAME } = gen_ai::RERANK,
                { gen_ai::PROVIDER_NAME } = gen_ai::provider(&self.info.provider),
                { gen_ai::REQUEST_MODEL } = self.info.model,
                { gen_ai::REQUEST_INPUT_COUNT } = i64::try_from(documents.len()).unwrap_or(i64::MAX),
                { gen_ai::USAGE_INPUT } = Empty,
                { gen_ai::ERROR_TYPE } = Empty,
            );
            let ranking = self.ask(query, documents, top).instrument(span.clone()).await;
            let tokens = |ranking: &Ranking| ranking.usage_known.then_some(ranking.usage.input);
            span::close(&span, ranking.as_ref().map(tokens));
            ranking
        })
    }
}

impl fmt::Debug for HttpReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpReranker").field("info", &self.info).finish_non_exhaustive()
    }
}
