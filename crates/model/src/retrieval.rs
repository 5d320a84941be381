//! Embedders, rerankers and the text splitter.

mod embedding;
mod hash_embedder;
mod rerank;
mod text_splitter;

pub use embedding::{
    EmbedFuture, Embedder, EmbedderInfo, EmbeddingInputType, Embeddings, embed_traced,
};
pub use hash_embedder::HashEmbedder;
pub use rerank::{RerankFuture, RerankResponse, RerankResult, Reranker, RerankerInfo};
pub use text_splitter::{TextChunk, TextSplitter};
