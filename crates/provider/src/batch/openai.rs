//! OpenAI's batches: an uploaded file of requests, a batch, and files of responses. Pure.

use provost_model::{BatchPhase, BatchStatus, ModelError};
use serde_json::{Value, json};

use super::BatchResponse;
use crate::http::api::{malformed_error, to_json_body};

/// Endpoint of the requests in a batch.
pub(super) const ENDPOINT: &str = "/v1/chat/completions";
/// Boundary of the parts of an upload. JSON lines never contain it after a line break, because JSON escapes control
/// characters.
const BOUNDARY: &str = "provost-batch-7f3b1c2e9d4a";

/// Encodes one request as a line of the uploaded file.
pub(super) fn encode_line(id: &str, mut body: Value) -> Result<Vec<u8>, ModelError> {
    without_stream(&mut body);
    let line = json!({ "custom_id": id, "method": "POST", "url": ENDPOINT, "body": body });
    let mut line = to_json_body(&line)?;
    line.push(b'\n');
    Ok(line)
}

/// Removes the streaming options, because batches do not stream.
pub(super) fn without_stream(body: &mut Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.remove("stream");
        fields.remove("stream_options");
    }
}

/// Returns the content type and the body of a file upload.
pub(super) fn encode_upload(lines: &[u8]) -> (String, Vec<u8>) {
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\n\
         content-type: application/jsonl\r\n\r\n"
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let body = [head.as_bytes(), lines, tail.as_bytes()].concat();
    (format!("multipart/form-data; boundary={BOUNDARY}"), body)
}

/// Parses the status of a batch and the ids of its result files.
pub(super) fn parse_status(batch: &Value) -> Result<(BatchStatus, Vec<String>), ModelError> {
    let state =
        batch["status"].as_str().ok_or_else(|| malformed_error("the provider sent no batch"))?;
    let phase = match state {
        "completed" => BatchPhase::Completed,
        "failed" | "expired" | "cancelled" => BatchPhase::Failed,
        _ => BatchPhase::InProgress,
    };
    let count = |name: &str| batch["request_counts"][name].as_u64().unwrap_or_default();
    let done = count("completed") + count("failed");
    let files = ["output_file_id", "error_file_id"].iter();
    let files = files.filter_map(|name| batch[*name].as_str()).map(str::to_owned).collect();
    Ok((BatchStatus { phase, done, total: count("total") }, files))
}

/// Parses a line of a result file: the request id, and the response or the error. `None` if the line has no id.
pub(super) fn read_response(line: &Value) -> Option<(String, BatchResponse)> {
    let id = line["custom_id"].as_str()?.to_owned();
    let response = &line["response"];
    let status = response["status_code"].as_u64().and_then(|status| u16::try_from(status).ok());
    let body = response["body"].clone();
    Some(match status {
        Some(200..300) => (id, Ok(body)),
        Some(status) => (id, Err((status, body))),
        None => (id, Err((500, json!({ "error": line["error"] })))),
    })
}
