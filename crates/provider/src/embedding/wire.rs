//! The embeddings endpoints of vendors: pure codecs.

mod cohere;
mod gemini;
mod ollama;
mod openai;
mod voyage;

use provost_core::Usage;
use provost_model::{ModelError, Purpose};

use crate::http::api::{Auth, malformed_error};

/// What is asked of a vendor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) model: &'a str,
    pub(super) texts: &'a [String],
    pub(super) purpose: Purpose,
    /// The size of the vectors, if the model is asked for one.
    pub(super) dimensions: Option<usize>,
}

/// What a vendor says: vectors, perhaps with their places, and tokens.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) vectors: Vec<(Option<usize>, Vec<f32>)>,
    pub(super) tokens: Option<u64>,
}

/// A vendor's way to ask for vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Gemini,
    Ollama,
    Voyage,
    Cohere,
}

impl Dialect {
    /// The path under the base URL.
    pub(super) fn path(self, model: &str) -> String {
        match self {
            Self::OpenAi | Self::Voyage => "/embeddings".to_owned(),
            Self::Gemini => format!("/models/{model}:batchEmbedContents"),
            Self::Ollama => "/api/embed".to_owned(),
            Self::Cohere => "/v2/embed".to_owned(),
        }
    }

    pub(super) fn auth(self) -> Auth {
        match self {
            Self::Gemini => Auth::Header("x-goog-api-key"),
            Self::OpenAi | Self::Ollama | Self::Voyage | Self::Cohere => Auth::Bearer,
        }
    }

    /// Texts that the vendor takes in one request.
    pub(super) fn texts_max(self) -> usize {
        match self {
            Self::OpenAi | Self::Ollama | Self::Voyage => 128,
            Self::Gemini => 100,
            Self::Cohere => 96,
        }
    }

    pub(super) fn encode(self, question: Question<'_>) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::OpenAi => openai::encode(question),
            Self::Gemini => gemini::encode(question),
            Self::Ollama => ollama::encode(question),
            Self::Voyage => voyage::encode(question),
            Self::Cohere => cohere::encode(question),
        }
    }

    /// The vectors in the order of the texts, and what it used if that was told.
    pub(super) fn decode(
        self,
        body: &[u8],
        texts: usize,
        dimensions: usize,
    ) -> Result<(Vec<Vec<f32>>, Option<Usage>), ModelError> {
        let said = match self {
            Self::OpenAi => openai::decode(body),
            Self::Gemini => gemini::decode(body),
            Self::Ollama => ollama::decode(body),
            Self::Voyage => voyage::decode(body),
            Self::Cohere => cohere::decode(body),
        }?;
        let used = said.tokens.map(|tokens| Usage::new(tokens, 0));
        Ok((ordered(said.vectors, texts, dimensions)?, used))
    }
}

fn ordered(
    said: Vec<(Option<usize>, Vec<f32>)>,
    texts: usize,
    dimensions: usize,
) -> Result<Vec<Vec<f32>>, ModelError> {
    if said.len() != texts {
        return Err(malformed_error(format!(
            "the provider sent {} vectors for {texts} texts",
            said.len()
        )));
    }
    let mut vectors = vec![Vec::new(); texts];
    for (place, (index, vector)) in said.into_iter().enumerate() {
        let found = vector.len();
        if found != dimensions {
            return Err(malformed_error(format!(
                "the model gives vectors of {found} numbers, not {dimensions}: build the embedder with the model's own size"
            )));
        }
        if vector.iter().any(|x| !x.is_finite()) {
            return Err(malformed_error(
                "the provider sent a vector that is not of finite numbers",
            ));
        }
        match vectors.get_mut(index.unwrap_or(place)) {
            Some(slot) if slot.is_empty() => *slot = vector,
            _ => return Err(malformed_error("the provider numbered its vectors wrongly")),
        }
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests;
