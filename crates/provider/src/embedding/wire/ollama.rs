//! Ollama's native embedding API.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{EmbedRequest, EmbedResponse};
use crate::http::api::to_json_body;
use crate::wire::malformed;

#[derive(Serialize)]
struct OllamaRequest<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

pub(super) fn encode(request: EmbedRequest<'_>) -> Result<Vec<u8>, ModelError> {
    let EmbedRequest { model, texts: input, dimensions, .. } = request;
    to_json_body(&OllamaRequest { model, input, dimensions })
}

#[derive(Deserialize)]
struct OllamaResponse {
    embeddings: Vec<Vec<f32>>,
    prompt_eval_count: Option<u64>,
}

pub(super) fn decode(body: &[u8]) -> Result<EmbedResponse, ModelError> {
    let body: OllamaResponse =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let vectors = body.embeddings.into_iter().map(|vector| (None, vector)).collect();
    Ok(EmbedResponse { vectors, tokens: body.prompt_eval_count })
}
