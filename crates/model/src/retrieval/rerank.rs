//! Rerankers: models that order documents by relevance to a query.

use futures::future::BoxFuture;
use provost_core::Usage;
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Properties of a reranker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RerankerInfo {
    /// Name of the provider, such as `cohere`.
    pub provider: String,
    /// Id of the model at the provider.
    pub model: String,
}

/// Position and relevance of one document.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RerankResult {
    /// Position of the document in the request.
    pub index: usize,
    /// Relevance score. Only scores of the same model can be compared.
    pub score: f64,
}

/// Documents in the order of their relevance, best first, with the usage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RerankResponse {
    /// The most relevant documents, best first.
    pub results: Vec<RerankResult>,
    /// Usage of the request. Zero if `usage_known` is false.
    pub usage: Usage,
    /// True if the provider reported the usage in tokens.
    pub usage_known: bool,
}

/// Future that returns the ordered documents or an error.
pub type RerankFuture<'a> = BoxFuture<'a, Result<RerankResponse, ModelError>>;

/// A model that orders documents by relevance to a query.
pub trait Reranker: Send + Sync + 'static {
    /// Returns the properties of the reranker.
    fn info(&self) -> &RerankerInfo;

    /// Returns at most `top` documents, or all if `top` is `None`, best first. Sends no request if there are no
    /// documents.
    fn rerank<'a>(
        &'a self,
        query: &'a str,
        documents: &'a [String],
        top: Option<usize>,
    ) -> RerankFuture<'a>;
}
