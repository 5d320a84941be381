//! Voyage: like OpenAI, with its own words for purpose and size.

use provost_model::ModelError;
use serde::Serialize;

use super::{Question, Said, openai};
use crate::http::api::json;
use provost_model::Purpose;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: &'a [String],
    input_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<usize>,
}

pub(super) fn encode(question: Question<'_>) -> Result<Vec<u8>, ModelError> {
    let Question { model, texts: input, purpose, dimensions: output_dimension } = question;
    let input_type = match purpose {
        Purpose::Document => "document",
        Purpose::Query => "query",
    };
    json(&Body { model, input, input_type, output_dimension })
}

pub(super) fn decode(body: &[u8]) -> Result<Said, ModelError> {
    openai::decode(body)
}
