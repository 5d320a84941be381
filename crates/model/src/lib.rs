//! Contract of models: traits, requests, events, errors, retries, routes, budgets and models for tests.
//!
//! [`ChatModel::stream`] is the only method that a model must implement. Everything else is derived from that stream.
//! This crate knows no vendor and opens no connection; `provost-provider` does.

mod accumulator;
mod batch;
mod catalog;
mod chat;
mod error;
pub mod gen_ai;
mod info;
mod request;
mod retrieval;
mod retry;
mod router;
pub mod span;
mod testing;
pub mod tokens;

pub use accumulator::ResponseAccumulator;
pub use batch::{
    BatchJob, BatchPhase, BatchProgress, BatchRequest, BatchResult, BatchResults, BatchStatus,
    check_batch, run_batch,
};
pub use catalog::{CatalogEntry, CatalogError, ModelCatalog, ModelKind, has_date_suffix};
pub use chat::{ChatModel, ModelEvent, ModelResponse, ModelStream, complete};
pub use error::{ModelError, ModelErrorClass};
pub use info::{ModelInfo, StructuredOutputSupport};
pub use request::{
    ChatRequest, MISSING_RESULT, ModelSettings, OutputSchema, ReasoningEffort, ToolChoice,
};
pub use retrieval::{
    EmbedFuture, Embedder, EmbedderInfo, EmbeddingInputType, Embeddings, HashEmbedder,
    RerankFuture, RerankResponse, RerankResult, Reranker, RerankerInfo, TextChunk, TextSplitter,
    embed_traced,
};
pub use retry::RetryPolicy;
pub use router::{
    BudgetError, BudgetLedger, BudgetReservation, BudgetStatus, CircuitBreakerConfig, CircuitState,
    Endpoint, EndpointStatus, FallbackPolicy, InMemoryLedger, NoBudget, RateLimits,
    ReservationRequest, ReserveFuture, ResponseBuffering, RouteError, RoutedModel,
    RoutedModelBuilder,
};
pub use testing::{
    Cassette, CassetteError, CassetteMode, CassetteRedaction, RecordedAnswer, RecordedCall,
    RecordingModel, ReplayModel, ScriptedModel, ScriptedTurn, call, calls, fail, text,
};
