//! Calls of models without an agent: requests, routing with fallbacks, batches, embeddings and the model catalog.
//!
//! ```
//! use provost::Message;
//! use provost::model::{ChatRequest, complete};
//! use provost::testing::ScriptedModel;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let model = ScriptedModel::new().text("Hello!");
//! let response = complete(&model, ChatRequest::new([Message::user("Hi")])).await?;
//! assert_eq!(response.message.text(), "Hello!");
//! # Ok::<_, provost::model::ModelError>(())
//! # }).unwrap();
//! ```
//!
//! - [`RoutedModel`]: several endpoints behind one model, with fallbacks, rate limits and budgets.
//! - [`run_batch`]: many requests with bounded concurrency. Vendors' batch APIs are in [`providers`](crate::providers).
//! - [`Embedder`], [`Reranker`] and [`TextSplitter`]: retrieval.
//! - [`ModelCatalog`]: context windows, prices and features of known models.

pub use provost_core::{Currency, Pricing};
pub use provost_model::tokens;
pub use provost_model::{
    BatchJob, BatchPhase, BatchProgress, BatchRequest, BatchResult, BatchResults, BatchStatus,
    run_batch,
};
pub use provost_model::{
    BudgetLedger, CircuitBreakerConfig, Endpoint, FallbackPolicy, InMemoryLedger, RateLimits,
    ResponseBuffering, RouteError, RoutedModel, RoutedModelBuilder,
};
pub use provost_model::{CatalogEntry, ModelCatalog, ModelKind};
pub use provost_model::{
    ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo, ModelResponse, ModelStream,
    OutputSchema, ReasoningEffort, ResponseAccumulator, RetryPolicy, StructuredOutputSupport,
    ToolChoice, complete,
};
pub use provost_model::{
    Embedder, EmbedderInfo, EmbeddingInputType, Embeddings, HashEmbedder, RerankResponse,
    RerankResult, Reranker, RerankerInfo, TextChunk, TextSplitter,
};
