//! Voyage's embedding API. It equals OpenAI's except for the names of the input type and of the dimensions.

use provost_model::ModelError;
use serde::Serialize;

use super::{EmbedRequest, EmbedResponse, openai};
use crate::http::api::to_json_body;
use provost_model::EmbeddingInputType;

#[derive(Serialize)]
struct VoyageRequest<'a> {
    model: &'a str,
    input: &'a [String],
    input_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<usize>,
}

pub(super) fn encode(request: EmbedRequest<'_>) -> Result<Vec<u8>, ModelError> {
    let EmbedRequest { model, texts: input, input_type, dimensions: output_dimension } = request;
    let input_type = match input_type {
        EmbeddingInputType::Document => "document",
        EmbeddingInputType::Query => "query",
    };
    to_json_body(&VoyageRequest { model, input, input_type, output_dimension })
}

pub(super) fn decode(body: &[u8]) -> Result<EmbedResponse, ModelError> {
    openai::decode(body)
}
