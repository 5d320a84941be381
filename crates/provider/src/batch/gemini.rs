//! Gemini's batches, with their requests and answers inline. Pure.

use provost_model::{BatchPhase, BatchState, ModelError};
use serde_json::{Value, json};

use super::Answer;
use crate::http::api::malformed_error;

/// One request of a batch.
pub(super) fn request(id: &str, body: Value) -> Value {
    json!({ "request": body, "metadata": { "key": id } })
}

/// The body that begins a batch.
pub(super) fn body(name: &str, requests: Vec<Value>) -> Value {
    let input = json!({ "requests": { "requests": requests } });
    json!({ "batch": { "display_name": name, "input_config": input } })
}

/// How a batch stands: it is a long-running operation with its state in the metadata.
pub(super) fn state(operation: &Value) -> Result<BatchState, ModelError> {
    let batch = match &operation["metadata"] {
        Value::Null => operation,
        metadata => metadata,
    };
    let state =
        batch["state"].as_str().ok_or_else(|| malformed_error("the provider sent no batch"))?;
    // Both spellings are in use: JOB_STATE_… and BATCH_STATE_….
    let phase = match state.rsplit_once("STATE_").map_or(state, |(_, state)| state) {
        "SUCCEEDED" => BatchPhase::Ended,
        "FAILED" | "CANCELLED" | "EXPIRED" => BatchPhase::Broken,
        _ => BatchPhase::Working,
    };
    let stats = &batch["batchStats"];
    let count = |name: &str| match &stats[name] {
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_u64().unwrap_or_default(),
    };
    let done = count("successfulRequestCount") + count("failedRequestCount");
    Ok(BatchState { phase, done, total: count("requestCount") })
}

/// The answers of a batch that ended.
pub(super) fn answers(operation: &Value) -> Vec<Value> {
    let inlined = &operation["response"]["inlinedResponses"];
    // The list stands in a message of the same name.
    let list = inlined["inlinedResponses"].as_array().or_else(|| inlined.as_array());
    list.cloned().unwrap_or_default()
}

/// What one answer is: whose, and the response or the failure.
pub(super) fn answer(item: &Value) -> Option<(String, Answer)> {
    let id = item["metadata"]["key"].as_str()?.to_owned();
    Some(match &item["error"] {
        Value::Null => (id, Ok(item["response"].clone())),
        error => (id, Err((500, json!({ "error": error })))),
    })
}
