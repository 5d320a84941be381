//! Model vendors: pure wire codecs, an HTTP client, and implementations of the `provost-model` traits.
//!
//! Only the codecs in [`wire`], `embedding`, `rerank` and `batch` know vendor JSON. The module `http` sends bytes and
//! knows no vendor.

mod batch;
mod embedding;
mod framing;
mod http;
mod rerank;
mod sigv4;
mod vendor;
pub mod wire;

pub use batch::{BatchClient, BatchClientBuilder};
pub use embedding::{
    HttpEmbedder, HttpEmbedderBuilder, cohere_embeddings, gemini_embeddings, ollama_embeddings,
    openai_embeddings, voyage_embeddings,
};
pub use http::{HttpModel, HttpModelBuilder, ModelBuildError, Timeouts};
pub use rerank::{HttpReranker, HttpRerankerBuilder, cohere_reranker, voyage_reranker};
pub use vendor::{
    Anthropic, AzureOpenAi, Bedrock, Gemini, ModelListing, Ollama, OpenAi, ProviderRegistry,
    ProviderRegistryError, openai_compatible,
};
