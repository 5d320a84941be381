//! Conversion of call results into tool outputs.
//!
//! Invariant: every output can be sent to a model. Invalid base 64 is replaced by a note.

use provost_core::{Document, Image, MediaSource, ToolResultPart};
use provost_tool::ToolOutput;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::error::excerpt;
use crate::limits::PARTS_MAX;

/// Converts the result of a call to a tool output.
pub(crate) fn to_output(result: CallToolResult) -> ToolOutput {
    let parts = result.content.into_iter().map(to_part);
    build_output(parts, result.structured_content, result.is_error.unwrap_or(false))
}

/// Converts a result with invalid parts. An invalid part becomes text. `None` if the JSON is not a tool result.
pub(crate) fn parse_loose_output(mut result: Value) -> Option<ToolOutput> {
    let object = result.as_object_mut()?;
    let content = object.remove("content");
    let structured = object.remove("structuredContent");
    let is_error = object.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let content = match content {
        Some(Value::Array(content)) => content,
        Some(other) => vec![other],
        None if structured.is_none() => return None,
        None => Vec::new(),
    };
    let parts = content.into_iter().map(|block| match ContentBlock::deserialize(&block) {
        Ok(block) => to_part(block),
        Err(_) => text_part(match block {
            Value::String(text) => text,
            other => other.to_string(),
        }),
    });
    Some(build_output(parts, structured, is_error))
}

/// Creates the output from at most [`PARTS_MAX`] parts. Structured content becomes metadata, and also text unless a
/// part contains it.
fn build_output(
    parts: impl ExactSizeIterator<Item = ToolResultPart>,
    structured: Option<Value>,
    is_error: bool,
) -> ToolOutput {
    let dropped = parts.len().saturating_sub(PARTS_MAX);
    let mut parts: Vec<ToolResultPart> = parts.take(PARTS_MAX).collect();
    if dropped > 0 {
        parts.push(text_part(format!("[{dropped} further parts omitted]")));
    }
    let mut output = ToolOutput { is_error, ..ToolOutput::default() };
    if let Some(structured) = structured.filter(|value| !value.is_null()) {
        // Servers should also send structured content as text, and most do.
        if !parts.iter().any(|part| contains_value(part, &structured)) {
            parts.push(text_part(structured.to_string()));
        }
        output = output.with_metadata(json!({ "structured_content": structured }));
    }
    if parts.is_empty() {
        parts.push(text_part(if is_error { "the tool failed without a message" } else { "done" }));
    }
    output.parts = parts;
    output
}

/// Returns true if the part is a text with the value, as JSON or, for a string, the string itself. The value can be
/// wrapped in an object with the only field `result`.
fn contains_value(part: &ToolResultPart, value: &Value) -> bool {
    let ToolResultPart::Text { text } = part else {
        return false;
    };
    // A widely used library wraps values that are not objects like this.
    let wrapped = value.as_object().filter(|object| object.len() == 1);
    let wrapped = wrapped.and_then(|object| object.get("result"));
    let same = |value: &Value| match value {
        Value::String(value) => value == text,
        value => serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value),
    };
    same(value) || wrapped.is_some_and(same)
}

fn text_part(text: impl Into<String>) -> ToolResultPart {
    ToolResultPart::Text { text: text.into() }
}

/// Converts a content block. A block of an unknown kind becomes JSON text.
fn to_part(block: ContentBlock) -> ToolResultPart {
    match block {
        ContentBlock::Text(block) => text_part(block.text),
        ContentBlock::Image(block) => binary_part(None, block.mime_type, block.data),
        ContentBlock::Audio(block) => binary_part(None, block.mime_type, block.data),
        ContentBlock::Resource(block) => resource_part(block.resource),
        ContentBlock::ResourceLink(link) => {
            let about = [Some(link.name), link.mime_type, link.description];
            let about: Vec<String> = about.into_iter().flatten().collect();
            text_part(format!("[resource {}: {}]", link.uri, about.join(", ")))
        }
        other => text_part(serde_json::to_string(&other).unwrap_or_default()),
    }
}

/// Converts the content of a resource.
fn resource_part(resource: ResourceContents) -> ToolResultPart {
    match resource {
        ResourceContents::TextResourceContents { uri, text: body, .. } => {
            text_part(format!("[resource {uri}]\n{body}"))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            binary_part(Some(uri), kind, blob)
        }
        other => text_part(serde_json::to_string(&other).unwrap_or_default()),
    }
}

/// Converts binary content to an image or a file, or to a note if it is not valid base64.
fn binary_part(uri: Option<String>, media_type: String, data: String) -> ToolResultPart {
    let kind = excerpt(media_type.as_str());
    let source = MediaSource::Base64 { media_type, data };
    if source.decode().is_none() {
        return text_part(format!("[a {kind} omitted: it is not valid base 64]"));
    }
    if kind.starts_with("image/") {
        return ToolResultPart::Image(Image { source, detail: None });
    }
    let name =
        uri.as_deref().and_then(|uri| uri.rsplit('/').next()).filter(|name| !name.is_empty());
    ToolResultPart::File(Document { source, name: name.map(str::to_owned) })
}

#[cfg(test)]
mod tests;
