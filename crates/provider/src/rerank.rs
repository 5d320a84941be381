//! Rerankers of Voyage and Cohere.

use std::fmt;

use provost_core::{Secret, Usage};
use provost_model::{
    ModelError, ModelErrorClass, RerankFuture, RerankResponse, RerankResult, Reranker,
    RerankerInfo, RetryPolicy, gen_ai, span,
};
use serde::{Deserialize, Serialize};
use tracing::{Instrument, field::Empty, info_span};

use crate::http::api::{
    ApiClient, ApiClientConfig, ApiRequest, Auth, VendorEndpoint, malformed_error, to_json_body,
};
use crate::wire::malformed;
use crate::{ModelBuildError, Timeouts};

/// Largest number of documents in one request. Both vendors have this limit.
const DOCUMENTS_MAX: usize = 1000;

/// Vendors with a rerank API.
#[derive(Debug, Clone, Copy)]
enum Vendor {
    Voyage,
    Cohere,
}

/// Creates a builder for Voyage. The key is usually in `VOYAGE_API_KEY`.
pub fn voyage_reranker(model: impl Into<String>) -> HttpRerankerBuilder {
    let base_url = "https://api.voyageai.com/v1";
    let endpoint = VendorEndpoint { provider: "voyage", base_url, auth: Auth::Bearer };
    builder(Vendor::Voyage, endpoint, "VOYAGE_API_KEY", model)
}

/// Creates a builder for Cohere. The key is usually in `COHERE_API_KEY`.
pub fn cohere_reranker(model: impl Into<String>) -> HttpRerankerBuilder {
    let base_url = "https://api.cohere.com";
    let endpoint = VendorEndpoint { provider: "cohere", base_url, auth: Auth::Bearer };
    builder(Vendor::Cohere, endpoint, "COHERE_API_KEY", model)
}

/// Creates a builder with a required key.
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

/// Builder of an [`HttpReranker`].
#[must_use]
pub struct HttpRerankerBuilder {
    vendor: Vendor,
    api: ApiClientConfig,
    info: RerankerInfo,
}

impl HttpRerankerBuilder {
    /// Sets the API key.
    pub fn api_key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.api.key = Some(key.into());
        self
    }

    /// Sets the base URL.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.api.base_url = url.into();
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

    /// Validates the configuration and builds the reranker. Sends no request.
    pub fn build(self) -> Result<HttpReranker, ModelBuildError> {
        if self.info.model.trim().is_empty() {
            return Err(ModelBuildError::Model);
        }
        let Self { vendor, api, info } = self;
        Ok(HttpReranker { vendor, api: api.build()?, info })
    }
}

/// Reranker that calls a vendor's API over HTTP.
pub struct HttpReranker {
    vendor: Vendor,
    api: ApiClient,
    info: RerankerInfo,
}

#[derive(Serialize)]
struct RerankRequest<'a> {
    model: &'a str,
    query: &'a str,
    documents: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_n: Option<usize>,
}

#[derive(Deserialize)]
struct RerankBody {
    /// The results. Voyage names the field `data`.
    #[serde(alias = "data")]
    results: Vec<RankedDocument>,
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct RankedDocument {
    index: usize,
    relevance_score: f64,
}

#[derive(Deserialize)]
struct ReportedUsage {
    total_tokens: Option<u64>,
}

impl HttpReranker {
    /// Sends a rerank request and decodes the response. Sends nothing if no document is wanted. Returns an error if
    /// there are too many documents.
    async fn send_request(
        &self,
        query: &str,
        documents: &[String],
        top: Option<usize>,
    ) -> Result<RerankResponse, ModelError> {
        if documents.is_empty() || top == Some(0) {
            return Ok(RerankResponse { usage_known: true, ..RerankResponse::default() });
        }
        if documents.len() > DOCUMENTS_MAX {
            let problem =
                format!("a rerank request has at most {DOCUMENTS_MAX} documents: send fewer");
            return Err(ModelError::new(ModelErrorClass::InvalidRequest, problem));
        }
        let (path, top_k, top_n) = match self.vendor {
            Vendor::Voyage => ("/rerank", top, None),
            Vendor::Cohere => ("/v2/rerank", None, top),
        };
        let body = RerankRequest { model: &self.info.model, query, documents, top_k, top_n };
        let read = |body: &[u8]| decode(body, documents.len());
        self.api.send(ApiRequest::post(path, to_json_body(&body)?), read).await
    }
}

/// Decodes a response for this number of documents. Returns an error if a position is unknown or occurs twice, or a
/// score is not finite.
fn decode(body: &[u8], documents: usize) -> Result<RerankResponse, ModelError> {
    let body: RerankBody =
        serde_json::from_slice(body).map_err(|cause| malformed("a ranking", &cause))?;
    let mut seen = vec![false; documents];
    let mut results = Vec::with_capacity(body.results.len());
    for RankedDocument { index, relevance_score: score } in body.results {
        match seen.get_mut(index) {
            Some(seen) if !*seen && score.is_finite() => *seen = true,
            _ => {
                return Err(malformed_error(
                    "the provider ranked an unknown document, or one document twice",
                ));
            }
        }
        results.push(RerankResult { index, score });
    }
    results.sort_by(|one, other| other.score.total_cmp(&one.score));
    let tokens = body.usage.and_then(|usage| usage.total_tokens);
    let usage = Usage::new(tokens.unwrap_or_default(), 0);
    Ok(RerankResponse { results, usage, usage_known: tokens.is_some() })
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
            let response = self.send_request(query, documents, top).instrument(span.clone()).await;
            let tokens =
                |response: &RerankResponse| response.usage_known.then_some(response.usage.input);
            span::record_result(&span, response.as_ref().map(tokens));
            response
        })
    }
}

impl fmt::Debug for HttpReranker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpReranker").field("info", &self.info).finish_non_exhaustive()
    }
}
