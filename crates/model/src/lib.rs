//! The contract of models: traits, requests, events, errors, retry, routes, budgets and models for tests.
//!
//! [`ChatModel::stream`] is the one thing a model must do; everything else folds that stream.
//! Nothing here knows a vendor or opens a connection: that is `provost-provider`.

mod batch;
mod catalog;
mod chat;
mod error;
mod fold;
pub mod gen_ai;
mod info;
mod request;
mod retrieval;
mod retry;
mod router;
pub mod span;
mod testing;
pub mod tokens;

pub use batch::{
    BatchItem, BatchJob, BatchOutcome, BatchPhase, BatchProgress, BatchRequest, BatchState,
    check_batch, run_batch,
};
pub use catalog::{Catalog, CatalogEntry, CatalogError, ModelKind, is_dated};
pub use chat::{ChatModel, ModelEvent, ModelResponse, ModelStream, complete};
pub use error::{ModelError, ModelErrorClass};
pub use fold::Fold;
pub use info::{ModelInfo, NativeOutput};
pub use request::{ChatRequest, Effort, MISSING_RESULT, OutputSchema, Settings, ToolChoice};
pub use retrieval::{
    Chunk, Chunking, EmbedFuture, Embedder, EmbedderInfo, Embeddings, HashEmbedder, Purpose,
    Ranked, Ranking, RerankFuture, Reranker, RerankerInfo, embed_traced,
};
pub use retry::RetryPolicy;
pub use router::{
    BreakerPolicy, BreakerState, BudgetHold, BudgetLedger, BudgetRefusal, BudgetWish, CapState,
    Delivery, Endpoint, EndpointState, FallbackRules, HoldFuture, Limits, MemoryLedger, RouteError,
    RoutedModel, RoutedModelBuilder, Unbounded,
};
pub use testing::{
    Cassette, CassetteError, CassetteMode, Player, RecordedAnswer, RecordedCall, Recorder,
    Redaction, ScriptedModel, Turn, call, calls, fail, text,
};
