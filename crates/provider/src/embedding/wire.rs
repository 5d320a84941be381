//! Codecs of the vendors' embedding APIs. Pure.

mod cohere;
mod gemini;
mod ollama;
mod openai;
mod voyage;

use provost_core::Usage;
use provost_model::{EmbeddingInputType, ModelError};

use crate::http::api::{Auth, malformed_error};

/// Request to an embedding API.
#[derive(Debug, Clone, Copy)]
pub(super) struct EmbedRequest<'a> {
    pub(super) model: &'a str,
    pub(super) texts: &'a [String],
    pub(super) input_type: EmbeddingInputType,
    /// Requested size of the vectors. `None` requests the default of the model.
    pub(super) dimensions: Option<usize>,
}

/// Response of an embedding API: vectors with their optional positions, and the used tokens.
#[derive(Debug, Default)]
pub(super) struct EmbedResponse {
    pub(super) vectors: Vec<(Option<usize>, Vec<f32>)>,
    pub(super) tokens: Option<u64>,
}

/// Vendors' formats of embedding requests and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmbedFormat {
    OpenAi,
    Gemini,
    Ollama,
    Voyage,
    Cohere,
}

impl EmbedFormat {
    /// Returns the path to append to the base URL.
    pub(super) fn path(self, model: &str) -> String {
        match self {
            Self::OpenAi | Self::Voyage => "/embeddings".to_owned(),
            Self::Gemini => format!("/models/{model}:batchEmbedContents"),
            Self::Ollama => "/api/embed".to_owned(),
            Self::Cohere => "/v2/embed".to_owned(),
        }
    }

    /// Returns the header in which the vendor expects the key.
    pub(super) fn auth(self) -> Auth {
        match self {
            Self::Gemini => Auth::Header("x-goog-api-key"),
            Self::OpenAi | Self::Ollama | Self::Voyage | Self::Cohere => Auth::Bearer,
        }
    }

    /// Returns the largest number of texts in one request.
    pub(super) fn texts_max(self) -> usize {
        match self {
            Self::OpenAi | Self::Ollama | Self::Voyage => 128,
            Self::Gemini => 100,
            Self::Cohere => 96,
        }
    }

    /// Encodes a request as JSON.
    pub(super) fn encode(self, request: EmbedRequest<'_>) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::OpenAi => openai::encode(request),
            Self::Gemini => gemini::encode(request),
            Self::Ollama => ollama::encode(request),
            Self::Voyage => voyage::encode(request),
            Self::Cohere => cohere::encode(request),
        }
    }

    /// Decodes a response. Returns the vectors in the order of the texts, and the usage if the vendor reported it.
    /// Returns an error if a vector is missing or has another number of dimensions.
    pub(super) fn decode(
        self,
        body: &[u8],
        texts: usize,
        dimensions: usize,
    ) -> Result<(Vec<Vec<f32>>, Option<Usage>), ModelError> {
        let response = match self {
            Self::OpenAi => openai::decode(body),
            Self::Gemini => gemini::decode(body),
            Self::Ollama => ollama::decode(body),
            Self::Voyage => voyage::decode(body),
            Self::Cohere => cohere::decode(body),
        }?;
        let usage = response.tokens.map(|tokens| Usage::new(tokens, 0));
        Ok((order_vectors(response.vectors, texts, dimensions)?, usage))
    }
}

/// Sorts the vectors by position. Returns an error if a position is missing or occurs twice, or a vector has another
/// number of dimensions.
fn order_vectors(
    vectors: Vec<(Option<usize>, Vec<f32>)>,
    texts: usize,
    dimensions: usize,
) -> Result<Vec<Vec<f32>>, ModelError> {
    if vectors.len() != texts {
        return Err(malformed_error(format!(
            "the provider sent {} vectors for {texts} texts",
            vectors.len()
        )));
    }
    let mut ordered = vec![Vec::new(); texts];
    for (position, (index, vector)) in vectors.into_iter().enumerate() {
        let actual = vector.len();
        if actual != dimensions {
            return Err(malformed_error(format!(
                "the model returns vectors of {actual} dimensions, not {dimensions}: build the embedder with the size of the model"
            )));
        }
        if vector.iter().any(|x| !x.is_finite()) {
            return Err(malformed_error(
                "the provider sent a vector with a number that is not finite",
            ));
        }
        match ordered.get_mut(index.unwrap_or(position)) {
            Some(slot) if slot.is_empty() => *slot = vector,
            _ => return Err(malformed_error("the provider sent invalid vector indexes")),
        }
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests;
