//! Cohere's embedding API, version 2.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{EmbedRequest, EmbedResponse};
use crate::http::api::to_json_body;
use crate::wire::malformed;
use provost_model::EmbeddingInputType;

#[derive(Serialize)]
struct CohereRequest<'a> {
    model: &'a str,
    texts: &'a [String],
    input_type: &'static str,
    embedding_types: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<usize>,
}

pub(super) fn encode(request: EmbedRequest<'_>) -> Result<Vec<u8>, ModelError> {
    let EmbedRequest { model, texts, input_type, dimensions: output_dimension } = request;
    let input_type = match input_type {
        EmbeddingInputType::Document => "search_document",
        EmbeddingInputType::Query => "search_query",
    };
    to_json_body(&CohereRequest {
        model,
        texts,
        input_type,
        embedding_types: ["float"],
        output_dimension,
    })
}

#[derive(Deserialize)]
struct CohereResponse {
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

pub(super) fn decode(body: &[u8]) -> Result<EmbedResponse, ModelError> {
    let body: CohereResponse =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let units = body.meta.and_then(|meta| meta.billed_units);
    let tokens = units.and_then(|units| units.input_tokens).filter(|tokens| *tokens >= 0.0);
    let vectors = body.embeddings.float.into_iter().map(|vector| (None, vector)).collect();
    Ok(EmbedResponse { vectors, tokens: tokens.map(|tokens| tokens as u64) })
}
