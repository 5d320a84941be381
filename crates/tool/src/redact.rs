//! Redaction of tool results and errors.

use provost_core::{Document, Image, MediaSource, ToolResultPart};
use provost_redact::Redact;

use crate::{ToolError, ToolOutput};

/// Removes secrets from all parts of an output and from its metadata, in place.
pub(crate) fn redact_output(redact: &dyn Redact, output: &mut ToolOutput) {
    for part in &mut output.parts {
        match part {
            ToolResultPart::Text { text } => {
                redact.redact_string(text);
            }
            ToolResultPart::Image(Image { source, detail }) => {
                redact_source(redact, source, detail)
            }
            ToolResultPart::File(Document { source, name }) => redact_source(redact, source, name),
            ToolResultPart::Unknown(value) => {
                redact.redact_json(value);
            }
        }
    }
    if let Some(metadata) = &mut output.metadata {
        redact.redact_json(metadata);
    }
}

/// Removes secrets from a file and its label, in place. Binary data is searched too.
fn redact_source(redact: &dyn Redact, source: &mut MediaSource, label: &mut Option<String>) {
    if let Some(label) = label {
        redact.redact_string(label);
    }
    if let MediaSource::Url(url) = source {
        redact.redact_string(url);
        return;
    }
    let Some(bytes) = source.decode() else { return };
    let mut chunks = redact.stream();
    let mut clean = chunks.push(&bytes);
    clean.extend(chunks.finish());
    let MediaSource::Base64 { media_type, .. } = source else { return };
    redact.redact_string(media_type);
    if clean != bytes {
        *source = MediaSource::bytes(std::mem::take(media_type), &clean);
    }
}

/// Removes secrets from the texts of an error, in place.
pub(crate) fn redact_error(redact: &dyn Redact, error: &mut ToolError) {
    match error {
        ToolError::Retry(text) | ToolError::Failed(text) | ToolError::Rejected(text) => {
            redact.redact_string(text);
        }
        ToolError::NeedsApproval { hint, payload }
        | ToolError::NeedsAnswer { question: hint, payload } => {
            redact.redact_string(hint);
            if let Some(payload) = payload {
                redact.redact_json(payload);
            }
        }
        ToolError::WaitsForRuns { wait } => drop(redact.redact_json(wait)),
        ToolError::Fault(fault) => {
            redact.redact_string(&mut fault.message);
            let details = std::mem::take(&mut fault.details).into_iter();
            let clean = |mut text: String| {
                redact.redact_string(&mut text);
                text
            };
            fault.details = details.map(|(key, value)| (clean(key), clean(value))).collect();
        }
        ToolError::Fatal(error) => {
            redact.redact_string(&mut error.message);
        }
    }
}
