//! Ollama's own endpoint.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{Question, Said};
use crate::http::api::json;
use crate::wire::malformed;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

pub(super) fn encode(question: Question<'_>) -> Result<Vec<u8>, ModelError> {
    let Question { model, texts: input, dimensions, .. } = question;
    json(&Body { model, input, dimensions })
}

#[derive(Deserialize)]
struct Answer {
    embeddings: Vec<Vec<f32>>,
    prompt_eval_count: Option<u64>,
}

pub(super) fn decode(body: &[u8]) -> Result<Said, ModelError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let vectors = answer.embeddings.into_iter().map(|vector| (None, vector)).collect();
    Ok(Said { vectors, tokens: answer.prompt_eval_count })
}
