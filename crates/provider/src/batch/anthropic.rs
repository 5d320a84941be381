//! Anthropic's message batches. Pure.

use provost_model::{BatchPhase, BatchStatus, ModelError};
use serde_json::{Value, json};

use super::BatchResponse;
use super::openai::without_stream;
use crate::http::api::malformed_error;

/// Encodes one request of a batch.
pub(super) fn encode_request(id: &str, mut params: Value) -> Value {
    without_stream(&mut params);
    json!({ "custom_id": id, "params": params })
}

/// Parses the status of a batch.
pub(super) fn parse_status(batch: &Value) -> Result<BatchStatus, ModelError> {
    let state = batch["processing_status"].as_str();
    let state = state.ok_or_else(|| malformed_error("the provider sent no batch"))?;
    let count = |name: &str| batch["request_counts"][name].as_u64().unwrap_or_default();
    let done: u64 = ["succeeded", "errored", "canceled", "expired"].into_iter().map(count).sum();
    let phase = match state {
        "ended" => BatchPhase::Completed,
        _ => BatchPhase::InProgress,
    };
    Ok(BatchStatus { phase, done, total: done + count("processing") })
}

/// Parses a line of the results: the request id, and the message or the error. `None` if the line has no id.
pub(super) fn read_response(line: &Value) -> Option<(String, BatchResponse)> {
    let id = line["custom_id"].as_str()?.to_owned();
    let result = &line["result"];
    Some(match result["type"].as_str() {
        Some("succeeded") => (id, Ok(result["message"].clone())),
        Some("errored") => {
            // The error can be nested in an error object.
            let error = match &result["error"]["error"] {
                Value::Null => &result["error"],
                inner => inner,
            };
            let status = if error["type"] == "invalid_request_error" { 400 } else { 500 };
            (id, Err((status, json!({ "error": error }))))
        }
        other => {
            let message = format!("the request was {}", other.unwrap_or("skipped"));
            (id, Err((503, json!({ "error": { "message": message } }))))
        }
    })
}
