//! Output of a tool call.

use std::io;

use provost_core::usage::limits::{TOOL_BINARY_BYTES_MAX, TOOL_OUTPUT_BYTES_MAX};
use provost_core::{Document, Image, MediaSource, ToolCall, ToolResult, ToolResultPart};
use serde::Serialize;
use serde_json::Value;

/// Maximum size of the metadata of one result as JSON. The metadata is stored with the conversation.
const METADATA_BYTES_MAX: usize = 256 * 1024;
/// Maximum size of a URL. No server accepts a longer one.
const URL_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of file names and other labels.
const LABEL_BYTES_MAX: usize = 1024;

/// Output of a tool call: parts for the model, and metadata for the application.
///
/// `ToolOutput` does not implement `Serialize`, so that [`IntoToolOutput`] can be implemented for all serializable
/// types.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// Parts that the model receives.
    pub parts: Vec<ToolResultPart>,
    /// True if the tool reports a failure.
    pub is_error: bool,
    /// Metadata that only the application receives.
    pub metadata: Option<Value>,
}

impl ToolOutput {
    /// Creates an output with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ToolResultPart::Text { text: text.into() }], ..Self::default() }
    }

    /// Creates an output that reports a failure.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Creates an output with a value as JSON text. A value without a JSON form results in an error output.
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(Value::String(text)) => Self::text(text),
            Ok(Value::Null) => Self::text("done"),
            Ok(value) => Self::text(value.to_string()),
            Err(error) => Self::error(format!("the result has no JSON form: {error}")),
        }
    }

    /// Creates an output with an image.
    pub fn image(image: Image) -> Self {
        Self { parts: vec![ToolResultPart::Image(image)], ..Self::default() }
    }

    /// Creates an output with a file.
    pub fn file(file: Document) -> Self {
        Self { parts: vec![ToolResultPart::File(file)], ..Self::default() }
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: ToolResultPart) -> Self {
        self.parts.push(part);
        self
    }

    /// Sets the metadata for the application. Null and a value without a JSON form change nothing.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Serialize) -> Self {
        match serde_json::to_value(metadata) {
            Ok(Value::Null) | Err(_) => {}
            Ok(value) => self.metadata = Some(value),
        }
        self
    }

    /// Returns all text parts, joined by line breaks.
    pub fn to_text(&self) -> String {
        ToolResultPart::join_text(&self.parts)
    }

    /// Returns the result of a call with this output.
    pub fn into_result(self, call: &ToolCall) -> ToolResult {
        ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            parts: self.parts,
            is_error: self.is_error,
            pending: false,
            metadata: self.metadata,
        }
    }

    /// Cuts texts and drops binary parts that are too large for a model, and leaves a note in their place.
    pub(crate) fn into_bounded(mut self) -> Self {
        let mut text_left = TOOL_OUTPUT_BYTES_MAX;
        let mut binary_left = TOOL_BINARY_BYTES_MAX;
        let mut dropped = 0usize;
        self.parts.retain_mut(|part| {
            cut_labels(part);
            if let Some(note) = oversize_note(part, &mut binary_left) {
                *part = ToolResultPart::Text { text: note };
            }
            let ToolResultPart::Text { text } = part else {
                return true;
            };
            // Thousands of tiny parts must not get a note each.
            if text_left == 0 && !text.is_empty() {
                dropped += 1;
                return false;
            }
            cut_text(text, text_left);
            text_left = text_left.saturating_sub(text.len());
            true
        });
        if dropped > 0 {
            let text = format!("[{dropped} further parts omitted]");
            self.parts.push(ToolResultPart::Text { text });
        }
        let metadata_size = self.metadata.as_ref().map_or(0, json_size);
        if metadata_size > METADATA_BYTES_MAX {
            let note = omitted_note("metadata", metadata_size, METADATA_BYTES_MAX);
            self.metadata = Some(Value::String(note));
        }
        self
    }
}

/// Takes the size of a binary part from `bytes_left`. Returns the note that replaces the part if too few bytes are
/// left, `None` if the part fits.
fn oversize_note(part: &ToolResultPart, bytes_left: &mut usize) -> Option<String> {
    let source = match part {
        ToolResultPart::Text { .. } => return None,
        ToolResultPart::Image(image) => Ok(&image.source),
        ToolResultPart::File(file) => Ok(&file.source),
        ToolResultPart::Unknown(value) => Err(value),
    };
    let (what, size) = match source {
        Ok(MediaSource::Base64 { data, media_type }) => {
            (format!("a {media_type}"), data.len() / 4 * 3)
        }
        // A data URL contains the bytes itself.
        Ok(MediaSource::Url(url)) if url.starts_with("data:") => {
            ("a data URL".to_owned(), url.len() / 4 * 3)
        }
        Ok(MediaSource::Url(url)) if url.len() > URL_BYTES_MAX => {
            return Some(omitted_note("a URL", url.len(), URL_BYTES_MAX));
        }
        Ok(MediaSource::Url(_)) => return None,
        Err(value) => ("a part of an unknown kind".to_owned(), json_size(value)),
    };
    match bytes_left.checked_sub(size) {
        Some(left) => {
            *bytes_left = left;
            None
        }
        None => Some(omitted_note(&what, size, TOOL_BINARY_BYTES_MAX)),
    }
}

/// Returns the note for omitted data.
fn omitted_note(what: &str, size: usize, size_max: usize) -> String {
    format!("[{what} of {size} bytes omitted: the maximum is {size_max}]")
}

/// Cuts the labels of an image or a file.
fn cut_labels(part: &mut ToolResultPart) {
    let (source, label) = match part {
        ToolResultPart::Image(Image { source, detail }) => (source, detail),
        ToolResultPart::File(Document { source, name }) => (source, name),
        ToolResultPart::Text { .. } | ToolResultPart::Unknown(_) => return,
    };
    if let MediaSource::Base64 { media_type, .. } = source {
        cut_text(media_type, LABEL_BYTES_MAX);
    }
    if let Some(label) = label {
        cut_text(label, LABEL_BYTES_MAX);
    }
}

/// Returns the size of a value as JSON, without building the text.
pub(crate) fn json_size(value: &Value) -> usize {
    struct Counter(usize);

    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

/// Removes the middle of a text that is too long. The start identifies the text, and the end shows its result.
pub(crate) fn cut_text(text: &mut String, bytes_max: usize) {
    if text.len() <= bytes_max {
        return;
    }
    let head_end = text.floor_char_boundary(bytes_max * 3 / 4);
    let tail_start = text.ceil_char_boundary(text.len() - bytes_max / 4);
    let dropped = tail_start - head_end;
    let whole = std::mem::take(text);
    text.reserve_exact(bytes_max + 64);
    text.push_str(&whole[..head_end]);
    text.push_str(&format!("\n[… {dropped} of {} bytes cut …]\n", whole.len()));
    text.push_str(&whole[tail_start..]);
}

/// Return types of tool functions: text, a [`ToolOutput`], or any serializable value.
pub trait IntoToolOutput {
    /// Converts the value into an output.
    fn into_tool_output(self) -> ToolOutput;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> ToolOutput {
        self
    }
}

impl<T: Serialize> IntoToolOutput for T {
    fn into_tool_output(self) -> ToolOutput {
        ToolOutput::json(&self)
    }
}

#[cfg(test)]
mod tests;
