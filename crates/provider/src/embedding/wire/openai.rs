//! OpenAI, and the many servers that copy it.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{Question, Said};
use crate::http::api::json;
use crate::wire::malformed;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

pub(super) fn encode(question: Question<'_>) -> Result<Vec<u8>, ModelError> {
    let Question { model, texts: input, dimensions, .. } = question;
    json(&Body { model, input, encoding_format: "float", dimensions })
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
    usage: Option<Used>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Used {
    prompt_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

pub(super) fn decode(body: &[u8]) -> Result<Said, ModelError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let tokens = answer.usage.and_then(|used| used.prompt_tokens.or(used.total_tokens));
    let vectors = answer.data.into_iter().map(|item| (item.index, item.embedding)).collect();
    Ok(Said { vectors, tokens })
}
