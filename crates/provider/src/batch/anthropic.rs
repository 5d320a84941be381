//! Anthropic's message batches. Pure.

use provost_model::{BatchPhase, BatchState, ModelError};
use serde_json::{Value, json};

use super::Answer;
use super::openai::without_stream;
use crate::http::api::malformed_error;

/// One request of a batch.
pub(super) fn request(id: &str, mut params: Value) -> Value {
    without_stream(&mut params);
    json!({ "custom_id": id, "params": params })
}

/// How a batch stands.
pub(super) fn state(batch: &Value) -> Result<BatchState, ModelError> {
    let status = batch["processing_status"].as_str();
    let status = status.ok_or_else(|| malformed_error("the provider sent no batch"))?;
    let count = |name: &str| batch["request_counts"][name].as_u64().unwrap_or_default();
    let done: u64 = ["succeeded", "errored", "canceled", "expired"].into_iter().map(count).sum();
    let phase = match status {
        "ended" => BatchPhase::Ended,
        _ => BatchPhase::Working,
    };
    Ok(BatchState { phase, done, total: done + count("processing") })
}

/// What a line of the results is: whose, and the message or the failure.
pub(super) fn answer(line: &Value) -> Option<(String, Answer)> {
    let id = line["custom_id"].as_str()?.to_owned();
    let result = &line["result"];
    Some(match result["type"].as_str() {
        Some("succeeded") => (id, Ok(result["message"].clone())),
        Some("errored") => {
            // The error may stand in a wrapping of its own kind.
            let error = match &result["error"]["error"] {
                Value::Null => &result["error"],
                inner => inner,
            };
            let status = if error["type"] == "invalid_request_error" { 400 } else { 500 };
            (id, Err((status, json!({ "error": error }))))
        }
        other => {
            let message = format!("the request was {}", other.unwrap_or("left out"));
            (id, Err((503, json!({ "error": { "message": message } }))))
        }
    })
}
