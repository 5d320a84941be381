//! OpenAI's batches: a file of lines, a batch of that file, files of answers. Pure.

use provost_model::{BatchPhase, BatchState, ModelError};
use serde_json::{Value, json};

use super::Answer;
use crate::http::api::{json as bytes, malformed_error};

/// Where a batch is asked for.
pub(super) const ENDPOINT: &str = "/v1/chat/completions";
/// What parts of an upload are told apart by; no line of JSON holds it, since control characters are escaped there.
const BOUNDARY: &str = "provost-batch-7f3b1c2e9d4a";

/// One line of the file.
pub(super) fn line(id: &str, mut body: Value) -> Result<Vec<u8>, ModelError> {
    without_stream(&mut body);
    let line = json!({ "custom_id": id, "method": "POST", "url": ENDPOINT, "body": body });
    let mut line = bytes(&line)?;
    line.push(b'\n');
    Ok(line)
}

/// A batch answers at once.
pub(super) fn without_stream(body: &mut Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.remove("stream");
        fields.remove("stream_options");
    }
}

/// The upload of a file: its type and its bytes.
pub(super) fn upload(lines: &[u8]) -> (String, Vec<u8>) {
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n\
         --{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\n\
         content-type: application/jsonl\r\n\r\n"
    );
    let tail = format!("\r\n--{BOUNDARY}--\r\n");
    let body = [head.as_bytes(), lines, tail.as_bytes()].concat();
    (format!("multipart/form-data; boundary={BOUNDARY}"), body)
}

/// How a batch stands, and the files of its answers and its failures.
pub(super) fn state(batch: &Value) -> Result<(BatchState, Vec<String>), ModelError> {
    let status =
        batch["status"].as_str().ok_or_else(|| malformed_error("the provider sent no batch"))?;
    let phase = match status {
        "completed" => BatchPhase::Ended,
        "failed" | "expired" | "cancelled" => BatchPhase::Broken,
        _ => BatchPhase::Working,
    };
    let count = |name: &str| batch["request_counts"][name].as_u64().unwrap_or_default();
    let done = count("completed") + count("failed");
    let files = ["output_file_id", "error_file_id"].iter();
    let files = files.filter_map(|name| batch[*name].as_str()).map(str::to_owned).collect();
    Ok((BatchState { phase, done, total: count("total") }, files))
}

/// What a line of a file of answers is: whose, and the status and body of the answer.
pub(super) fn answer(line: &Value) -> Option<(String, Answer)> {
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
