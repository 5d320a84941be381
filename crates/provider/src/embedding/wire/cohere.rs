//! Cohere's second version.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{Question, Said};
use crate::http::api::json;
use crate::wire::malformed;
use provost_model::Purpose;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    texts: &'a [String],
    input_type: &'static str,
    embedding_types: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<usize>,
}

pub(super) fn encode(question: Question<'_>) -> Result<Vec<u8>, ModelError> {
    let Question { model, texts, purpose, dimensions: output_dimension } = question;
    let input_type = match purpose {
        Purpose::Document => "search_document",
        Purpose::Query => "search_query",
    };
    json(&Body { model, texts, input_type, embedding_types: ["float"], output_dimension })
}

#[derive(Deserialize)]
struct Answer {
    embeddings: Embeddings,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Embeddings {
    float: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Meta {
    billed_units: Option<Units>,
}

#[derive(Deserialize)]
struct Units {
    input_tokens: Option<f64>,
}

pub(super) fn decode(body: &[u8]) -> Result<Said, ModelError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let units = answer.meta.and_then(|meta| meta.billed_units);
    let tokens = units.and_then(|units| units.input_tokens).filter(|tokens| *tokens >= 0.0);
    let vectors = answer.embeddings.float.into_iter().map(|vector| (None, vector)).collect();
    Ok(Said { vectors, tokens: tokens.map(|tokens| tokens as u64) })
}
