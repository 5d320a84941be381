//! Rerankers: documents in the order in which they answer a query.

use futures::future::BoxFuture;
use provost_core::Usage;
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Facts about a reranker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RerankerInfo {
    /// Who serves it, such as `cohere`.
    pub provider: String,
    /// Its id at the provider.
    pub model: String,
}

/// One document and how well it answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Its place among the documents that were given.
    pub index: usize,
    /// How well it answers; only numbers of one model can be compared.
    pub score: f64,
}

/// Documents, best first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// The best ones, as many as were asked for.
    pub ranked: Vec<Ranked>,
    /// What it used.
    pub usage: Usage,
    /// Whether the provider said what it used in tokens; if not, `usage` is zero and means nothing.
    pub usage_known: bool,
}

/// What a reranker gives.
pub type RerankFuture<'a> = BoxFuture<'a, Result<Ranking, ModelError>>;

/// Something that tells which documents answer a query.
pub trait Reranker: Send + Sync + 'static {
    /// What is known about it.
    fn info(&self) -> &RerankerInfo;

    /// The documents, best first, at most `top` of them. Without documents nothing is asked.
    fn rerank<'a>(
        &'a self,
        query: &'a str,
        documents: &'a [String],
        top: Option<usize>,
    ) -> RerankFuture<'a>;
}
