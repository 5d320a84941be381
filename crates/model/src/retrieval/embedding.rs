//! Embedders: models that turn texts into vectors. Similar texts have close vectors.
//!
//! The embedders of vendors are in `provost-provider`. [`HashEmbedder`](crate::HashEmbedder) needs no network and
//! is meant for tests.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::Usage;
use serde::{Deserialize, Serialize};
use tracing::Instrument;

use crate::{ModelError, span};

/// Properties of an embedder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderInfo {
    /// Name of the provider, such as `openai`.
    pub provider: String,
    /// Id of the model at the provider.
    pub model: String,
    /// Number of dimensions of a vector.
    pub dimensions: usize,
}

impl EmbedderInfo {
    /// Returns the name of the vector space. Only vectors of the same space can be compared.
    pub fn space(&self) -> String {
        format!("{}/{}/{}", self.provider, self.model, self.dimensions)
    }
}

/// Purpose of the embedded texts. Some models encode queries and documents differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingInputType {
    /// The texts are stored and searched later.
    Document,
    /// The text is a search query.
    Query,
}

/// Vectors of a list of texts, in the order of the texts, with the usage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embeddings {
    /// One vector for each text, in the order of the texts.
    pub vectors: Vec<Vec<f32>>,
    /// Usage of the request. Zero if `usage_known` is false.
    pub usage: Usage,
    /// True if the provider reported the usage.
    pub usage_known: bool,
}

impl Embeddings {
    /// Returns the number of used tokens. `None` if the provider did not report it.
    pub fn tokens(&self) -> Option<u64> {
        self.usage_known.then_some(self.usage.input)
    }
}

/// Future that returns the vectors or an error.
pub type EmbedFuture<'a> = BoxFuture<'a, Result<Embeddings, ModelError>>;

/// A model that turns texts into vectors.
pub trait Embedder: Send + Sync + 'static {
    /// Returns the properties of the embedder.
    fn info(&self) -> &EmbedderInfo;

    /// Returns one vector for each text, in the order of the texts. No text may be empty.
    fn embed<'a>(&'a self, texts: &'a [String], input_type: EmbeddingInputType) -> EmbedFuture<'a>;
}

impl<E: Embedder + ?Sized> Embedder for Arc<E> {
    fn info(&self) -> &EmbedderInfo {
        (**self).info()
    }

    fn embed<'a>(&'a self, texts: &'a [String], input_type: EmbeddingInputType) -> EmbedFuture<'a> {
        (**self).embed(texts, input_type)
    }
}

/// Calls an embedder within a span that records the model, the number of texts, the tokens and the result.
///
/// The embedders of `provost-provider` already open such a span.
pub async fn embed_traced(
    embedder: &dyn Embedder,
    texts: &[String],
    input_type: EmbeddingInputType,
) -> Result<Embeddings, ModelError> {
    let span = span::embeddings(embedder.info(), texts.len());
    let result = embedder.embed(texts, input_type).instrument(span.clone()).await;
    span::record_result(&span, result.as_ref().map(Embeddings::tokens));
    result
}
