//! Model vendors: OpenAI, Anthropic, Gemini, Ollama, Bedrock, Azure and servers with compatible APIs.
//!
//! ```no_run
//! use provost::Agent;
//! use provost::providers::OpenAi;
//!
//! // Reads OPENAI_API_KEY.
//! let agent = Agent::builder("hello", OpenAi::from_env("gpt-5-mini")?).build()?;
//! # drop(agent);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! [`ProviderRegistry`] builds models by name, such as `anthropic/claude-haiku-4-5`. [`openai_compatible`] connects to
//! any server with OpenAI's chat API.

pub use provost_provider::{
    Anthropic, AzureOpenAi, Bedrock, Gemini, HttpModel, HttpModelBuilder, ModelBuildError,
    ModelListing, Ollama, OpenAi, ProviderRegistry, ProviderRegistryError, Timeouts,
    openai_compatible,
};
pub use provost_provider::{
    BatchClient, BatchClientBuilder, HttpEmbedder, HttpReranker, cohere_embeddings,
    cohere_reranker, gemini_embeddings, ollama_embeddings, openai_embeddings, voyage_embeddings,
    voyage_reranker,
};
