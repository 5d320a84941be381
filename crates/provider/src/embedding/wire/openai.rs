//! OpenAI's embedding API, which many other servers implement.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{EmbedRequest, EmbedResponse};
use crate::http::api::to_json_body;
use crate::wire::malformed;

#[derive(Serialize)]
struct OpenAiRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

pub(super) fn encode(request: EmbedRequest<'_>) -> Result<Vec<u8>, ModelError> {
    let EmbedRequest { model, texts: input, dimensions, .. } = request;
    to_json_body(&OpenAiRequest { model, input, encoding_format: "float", dimensions })
}

#[derive(Deserialize)]
struct OpenAiResponse {
    data: Vec<EmbeddingItem>,
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct ReportedUsage {
    prompt_tokens: Option<u64>,
    total_tokens: Option<u64>,
}

pub(super) fn decode(body: &[u8]) -> Result<EmbedResponse, ModelError> {
    let body: OpenAiResponse =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let tokens = body.usage.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens));
    let vectors = body.data.into_iter().map(|item| (item.index, item.embedding)).collect();
    Ok(EmbedResponse { vectors, tokens })
}
