//! Embedders: texts to vectors whose closeness means likeness.
//!
//! The embedders of vendors are in `provost-provider`. [`HashEmbedder`] needs no network and is for tests.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::Usage;
use serde::{Deserialize, Serialize};
use tracing::Instrument;

use crate::{ModelError, span};

/// Facts about an embedder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderInfo {
    /// Who serves it, such as `openai`.
    pub provider: String,
    /// Its id at the provider.
    pub model: String,
    /// How many numbers a vector has.
    pub dimensions: usize,
}

impl EmbedderInfo {
    /// The name of the space its vectors live in: only vectors of one space can be compared.
    pub fn space(&self) -> String {
        format!("{}/{}/{}", self.provider, self.model, self.dimensions)
    }
}

/// What the vectors are for; some models want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To be found later.
    Document,
    /// To find something now.
    Query,
}

/// The vectors of some texts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Embeddings {
    /// One for each text, in the order of the texts.
    pub vectors: Vec<Vec<f32>>,
    /// What it used.
    pub usage: Usage,
    /// Whether the provider said what it used; if not, `usage` is zero and means nothing.
    pub usage_known: bool,
}

impl Embeddings {
    /// The tokens that were used, if the provider said so.
    pub fn tokens(&self) -> Option<u64> {
        self.usage_known.then_some(self.usage.input)
    }
}

/// What an embedder gives.
pub type EmbedFuture<'a> = BoxFuture<'a, Result<Embeddings, ModelError>>;

/// Something that turns texts into vectors.
pub trait Embedder: Send + Sync + 'static {
    /// What is known about it.
    fn info(&self) -> &EmbedderInfo;

    /// The vectors of these texts, one for each in their order. No text may be empty.
    fn embed<'a>(&'a self, texts: &'a [String], purpose: Purpose) -> EmbedFuture<'a>;
}

impl<E: Embedder + ?Sized> Embedder for Arc<E> {
    fn info(&self) -> &EmbedderInfo {
        (**self).info()
    }

    fn embed<'a>(&'a self, texts: &'a [String], purpose: Purpose) -> EmbedFuture<'a> {
        (**self).embed(texts, purpose)
    }
}

/// Asks an embedder within a span that tells which model, how many texts, how many tokens and how it ended.
///
/// The embedders of `provost-provider` do so by themselves.
pub async fn embed_traced(
    embedder: &dyn Embedder,
    texts: &[String],
    purpose: Purpose,
) -> Result<Embeddings, ModelError> {
    let span = span::embeddings(embedder.info(), texts.len());
    let made = embedder.embed(texts, purpose).instrument(span.clone()).await;
    span::close(&span, made.as_ref().map(Embeddings::tokens));
    made
}
