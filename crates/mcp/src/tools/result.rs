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

/// Converts the result of a call.
pub(crate) fn output(result: CallToolResult) -> ToolOutput {
    let parts = result.content.into_iter().map(part);
    assemble(parts, result.structured_content, result.is_error.unwrap_or(false))
}

/// Converts a result with invalid parts, and keeps the valid ones. `None` if no part is valid.
pub(crate) fn loose_output(mut result: Value) -> Option<ToolOutput> {
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
        Ok(block) => part(block),
        Err(_) => text(match block {
            Value::String(text) => text,
            other => other.to_string(),
        }),
    });
    Some(assemble(parts, structured, is_error))
}

fn assemble(
    parts: impl ExactSizeIterator<Item = ToolResultPart>,
    structured: Option<Value>,
    is_error: bool,
) -> ToolOutput {
    let dropped = parts.len().saturating_sub(PARTS_MAX);
    let mut parts: Vec<ToolResultPart> = parts.take(PARTS_MAX).collect();
    if dropped > 0 {
        parts.push(text(format!("[{dropped} further parts omitted]")));
    }
    let mut output = ToolOutput { is_error, ..ToolOutput::default() };
    if let Some(structured) = structured.filter(|value| !value.is_null()) {
        // Servers should also send structured content as text, and most do.
        if !parts.iter().any(|part| contains_value(part, &structured)) {
            parts.push(text(structured.to_string()));
        }
        output = output.with_metadata(json!({ "structured_content": structured }));
    }
    if parts.is_empty() {
        parts.push(text(if is_error { "the tool failed without a message" } else { "done" }));
    }
    output.parts = parts;
    output
}

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

fn text(text: impl Into<String>) -> ToolResultPart {
    ToolResultPart::Text { text: text.into() }
}

fn part(block: ContentBlock) -> ToolResultPart {
    match block {
        ContentBlock::Text(block) => text(block.text),
        ContentBlock::Image(block) => binary(None, block.mime_type, block.data),
        ContentBlock::Audio(block) => binary(None, block.mime_type, block.data),
        ContentBlock::Resource(block) => resource(block.resource),
        ContentBlock::ResourceLink(link) => {
            let about = [Some(link.name), link.mime_type, link.description];
            let about: Vec<String> = about.into_iter().flatten().collect();
            text(format!("[resource {}: {}]", link.uri, about.join(", ")))
        }
        other => text(serde_json::to_string(&other).unwrap_or_default()),
    }
}

fn resource(resource: ResourceContents) -> ToolResultPart {
    match resource {
        ResourceContents::TextResourceContents { uri, text: body, .. } => {
            text(format!("[resource {uri}]\n{body}"))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            binary(Some(uri), kind, blob)
        }
        other => text(serde_json::to_string(&other).unwrap_or_default()),
    }
}

/// Converts binary content into an image or a file.
fn binary(uri: Option<String>, media_type: String, data: String) -> ToolResultPart {
    let kind = excerpt(media_type.as_str());
    let source = MediaSource::Base64 { media_type, data };
    if source.decode().is_none() {
        return text(format!("[a {kind} omitted: it is not valid base 64]"));
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
