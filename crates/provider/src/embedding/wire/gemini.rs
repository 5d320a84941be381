//! Gemini: one request holds many, each with its model.

use provost_model::ModelError;
use serde::{Deserialize, Serialize};

use super::{Question, Said};
use crate::http::api::json;
use crate::wire::malformed;
use provost_model::Purpose;

#[derive(Serialize)]
struct Body<'a> {
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

pub(super) fn encode<'a>(question: Question<'a>) -> Result<Vec<u8>, ModelError> {
    let Question { model, texts, purpose, dimensions: output_dimensionality } = question;
    let task_type = match purpose {
        Purpose::Document => "RETRIEVAL_DOCUMENT",
        Purpose::Query => "RETRIEVAL_QUERY",
    };
    let request = |text: &'a String| Request {
        model: format!("models/{model}"),
        content: Content { parts: [Text { text: text.as_str() }] },
        task_type,
        output_dimensionality,
    };
    json(&Body { requests: texts.iter().map(request).collect() })
}

#[derive(Deserialize)]
struct Answer {
    embeddings: Vec<Values>,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f32>,
}

pub(super) fn decode(body: &[u8]) -> Result<Said, ModelError> {
    let answer: Answer =
        serde_json::from_slice(body).map_err(|cause| malformed("embeddings", &cause))?;
    let vectors = answer.embeddings.into_iter().map(|values| (None, values.values)).collect();
    // Gemini does not say what it used.
    Ok(Said { vectors, tokens: None })
}
