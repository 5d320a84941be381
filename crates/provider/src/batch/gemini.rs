//! Gemini's batches with inline requests and responses. Pure.

use provost_model::{BatchPhase, BatchStatus, ModelError};
use serde_json::{Value, json};

use super::BatchResponse;
use crate::http::api::malformed_error;

/// Encodes one request of a batch.
pub(super) fn encode_request(id: &str, body: Value) -> Value {
    json!({ "request": body, "metadata": { "key": id } })
}

/// Encodes the request that creates a batch.
pub(super) fn encode_batch(name: &str, requests: Vec<Value>) -> Value {
    let input = json!({ "requests": { "requests": requests } });
    json!({ "batch": { "display_name": name, "input_config": input } })
}

/// Parses the status of a batch. The batch is a long-running operation with its state in the metadata.
pub(super) fn parse_status(operation: &Value) -> Result<BatchStatus, ModelError> {
    let batch = match &operation["metadata"] {
        Value::Null => operation,
        metadata => metadata,
    };
    let state =
        batch["state"].as_str().ok_or_else(|| malformed_error("the provider sent no batch"))?;
    // The API uses both prefixes: JOB_STATE_… and BATCH_STATE_….
    let phase = match state.rsplit_once("STATE_").map_or(state, |(_, state)| state) {
        "SUCCEEDED" => BatchPhase::Completed,
        "FAILED" | "CANCELLED" | "EXPIRED" => BatchPhase::Failed,
        _ => BatchPhase::InProgress,
    };
    let stats = &batch["batchStats"];
    let count = |name: &str| match &stats[name] {
        Value::String(text) => text.parse().unwrap_or_default(),
        other => other.as_u64().unwrap_or_default(),
    };
    let done = count("successfulRequestCount") + count("failedRequestCount");
    Ok(BatchStatus { phase, done, total: count("requestCount") })
}

/// Returns the responses of a finished batch. Empty if it has none.
pub(super) fn responses(operation: &Value) -> Vec<Value> {
    let inlined = &operation["response"]["inlinedResponses"];
    // The list is nested in an object with the same name.
    let list = inlined["inlinedResponses"].as_array().or_else(|| inlined.as_array());
    list.cloned().unwrap_or_default()
}

/// Parses one response: the request id, and the response or the error. `None` if it has no id.
pub(super) fn read_response(item: &Value) -> Option<(String, BatchResponse)> {
    let id = item["metadata"]["key"].as_str()?.to_owned();
    Some(match &item["error"] {
        Value::Null => (id, Ok(item["response"].clone())),
        error => (id, Err((500, json!({ "error": error })))),
    })
}
