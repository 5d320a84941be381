//! Model vendors: pure wire codecs, one HTTP client, and the traits of `provost-model` over them.
//!
//! Vendor JSON is known only to the codecs in [`wire`], in `embedding`, `rerank` and `batch`; `http` moves bytes and knows no
//! vendor.

mod batch;
mod embedding;
mod framing;
mod http;
mod rerank;
mod sigv4;
mod vendor;
pub mod wire;

pub use batch::{NativeBatch, NativeBatchBuilder};
pub use embedding::{
    HttpEmbedder, HttpEmbedderBuilder, cohere_embeddings, gemini_embeddings, ollama_embeddings,
    openai_embeddings, voyage_embeddings,
};
pub use http::{BuildError, HttpModel, HttpModelBuilder, Timeouts};
pub use rerank::{HttpReranker, HttpRerankerBuilder, cohere_reranker, voyage_reranker};
pub use vendor::{
    Anthropic, AzureOpenAi, Bedrock, Gemini, ModelList, Ollama, OpenAi, Providers, ProvidersError,
    openai_compatible,
};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct ModelsPage;
