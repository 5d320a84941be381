//! Embedders, rerankers and the cutting of texts for them.

mod embedding;
mod hash_embedder;
mod rerank;
mod text_splitter;

pub use embedding::{EmbedFuture, Embedder, EmbedderInfo, Embeddings, Purpose, embed_traced};
pub use hash_embedder::HashEmbedder;
pub use rerank::{Ranked, Ranking, RerankFuture, Reranker, RerankerInfo};
pub use text_splitter::{Chunk, Chunking};
