//! Gemini's embedding API. Each text is a request of its own within one HTTP request.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{EmbedRequest, EmbedResponse};
use crate::http::api::to_json_body;
use crate::wire::malformed;
use provost_model::EmbeddingInputType;

#[derive(Serialize)]
struct BatchEmbedRequest<'a> {
    requests: Vec<Request<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    model: String,
    content: Content<'a>,
    task_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<usize>,
}

#[derive(Serialize)]
struct Content<'a> {
    parts: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

pub(super) fn encode<'a>(request: EmbedRequest<'a>) -> Result<Vec<u8>, ModelError> {
    let EmbedRequest { model, texts, input_type, dimensions: output_dimensionality } = request;
    let task_type = match input_type {
        EmbeddingInputType::Document => "RETRIEVAL_DOCUMENT",
        EmbeddingInputType::Query => "RETRIEVAL_QUERY",
    };
    let request = |text: &'a String| Request {
        model: format!("models/{model}"),
        content: Content { parts: [Text { text: text.as_str() }] },
        task_type,
        output_dimensionality,
    };
    to_json_body(&BatchEmbedRequest { requests: texts.iter().map(request).collect() })
}

#[derive(Deserialize)]
struct BatchEmbedResponse {
    embeddings: Vec<Values>,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f32>,
}

pub(super) fn decode(body: &[u8]) -> Result<EmbedResponse, ModelError> {
    let body: BatchEmbedResponse =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let vectors = body.embeddings.into_iter().map(|values| (None, values.values)).collect();
    // Gemini reports no usage.
    Ok(EmbedResponse { vectors, tokens: None })
}
