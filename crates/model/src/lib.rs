//! Chat models: one trait, pure wire codecs, one HTTP transport.
//!
//! [`ChatModel::stream`] is the one thing a model must do; everything else folds that stream.
//! Vendor JSON is known only to the codecs in [`wire`]; the transport moves bytes and knows no vendor.

mod batch;
mod cassette;
mod catalog;
mod chat;
mod chunk;
mod embed;
mod error;
mod fold;
pub mod gen_ai;
mod http;
mod info;
mod provider;
mod request;
mod rerank;
mod retry;
mod router;
mod scripted;
mod sse;
pub mod tokens;
pub mod wire;

pub use batch::{
    BatchItem, BatchJob, BatchOutcome, BatchPhase, BatchProgress, BatchRequest, BatchState,
    NativeBatch, NativeBatchBuilder, run_batch,
};
pub use cassette::{
    Cassette, CassetteError, CassetteMode, Player, RecordedAnswer, RecordedCall, Recorder,
    Redaction,
};
pub use catalog::{Catalog, CatalogEntry, CatalogError, ModelKind, ModelList};
pub use chat::{ChatModel, ModelEvent, ModelResponse, ModelStream, complete};
pub use chunk::{Chunk, Chunking};
pub use embed::{
    EmbedFuture, Embedder, EmbedderInfo, Embeddings, HashEmbedder, HttpEmbedder,
    HttpEmbedderBuilder, Purpose, cohere_embeddings, embed_traced, gemini_embeddings,
    ollama_embeddings, openai_embeddings, voyage_embeddings,
};
pub use error::{ModelError, ModelErrorClass};
pub use fold::Fold;
pub use http::{BuildError, HttpModel, HttpModelBuilder, Timeouts};
pub use info::{ModelInfo, NativeOutput};
pub use provider::{
    Anthropic, AzureOpenAi, Bedrock, Gemini, Ollama, OpenAi, Providers, ProvidersError,
    openai_compatible,
};
pub use request::{ChatRequest, Effort, OutputSchema, Settings, ToolChoice};
pub use rerank::{
    HttpReranker, HttpRerankerBuilder, Ranked, Ranking, RerankFuture, Reranker, RerankerInfo,
    cohere_reranker, voyage_reranker,
};
pub use retry::RetryPolicy;
pub use router::{
    BreakerPolicy, BreakerState, BudgetHold, BudgetLedger, BudgetRefusal, BudgetWish, CapState,
    Delivery, Endpoint, EndpointState, FallbackRules, HoldFuture, Limits, MemoryLedger, RouteError,
    RoutedModel, RoutedModelBuilder, Unbounded,
};
pub use scripted::{ScriptedModel, Turn, call, calls, fail, text};
pub use sse::{SseError, SseEvent, SseParser};

#[cfg(doctest)]
#[doc = include_str!("../../../docs/models.md")]
struct ModelsPage;
