//! What a tool gives back.

use provost_core::limits::{TOOL_BINARY_BYTES_MAX, TOOL_OUTPUT_BYTES_MAX};
use provost_core::{Document, Image, ResultPart, Source, ToolCall, ToolResult};
use serde::Serialize;
use serde_json::Value;

/// What a tool gives back: parts for the model, and metadata that only the application sees.
///
/// It does not implement `Serialize`, so that [`IntoToolOutput`] can take every serializable value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolOutput {
    /// What the model sees.
    pub parts: Vec<ResultPart>,
    /// True if the call failed in a way the tool itself reports.
    pub is_error: bool,
    /// For the application only.
    pub metadata: Option<Value>,
}

impl ToolOutput {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ResultPart::Text { text: text.into() }], ..Self::default() }
    }

    /// A failure in the tool's own words.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// A value as JSON text. A value that has no JSON form gives an error output.
    pub fn json(value: &impl Serialize) -> Self {
        match serde_json::to_value(value) {
            Ok(Value::String(text)) => Self::text(text),
            Ok(Value::Null) => Self::text("done"),
            Ok(value) => Self::text(value.to_string()),
            Err(error) => Self::error(format!("the result has no JSON form: {error}")),
        }
    }

    /// A picture.
    pub fn image(image: Image) -> Self {
        Self { parts: vec![ResultPart::Image(image)], ..Self::default() }
    }

    /// A file.
    pub fn file(file: Document) -> Self {
        Self { parts: vec![ResultPart::File(file)], ..Self::default() }
    }

    /// Adds a part.
    #[must_use]
    pub fn with(mut self, part: ResultPart) -> Self {
        self.parts.push(part);
        self
    }

    /// Adds metadata for the application; the model never sees it. A value without a JSON form changes nothing.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Serialize) -> Self {
        match serde_json::to_value(metadata) {
            Ok(Value::Null) | Err(_) => {}
            Ok(value) => self.metadata = Some(value),
        }
        self
    }

    /// All text parts, joined by line breaks.
    pub fn to_text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                ResultPart::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    /// The result of a call.
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

    /// Cuts what is too large for a model, and says so in its place.
    pub(crate) fn bounded(mut self) -> Self {
        let mut text_left = TOOL_OUTPUT_BYTES_MAX;
        let mut binary_left = TOOL_BINARY_BYTES_MAX;
        let mut dropped = 0usize;
        self.parts.retain_mut(|part| {
            if let Some(note) = without_binary(part, &mut binary_left) {
                *part = ResultPart::Text { text: note };
            }
            let ResultPart::Text { text } = part else {
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
            let text = format!("[{dropped} further parts were left out]");
            self.parts.push(ResultPart::Text { text });
        }
        self
    }
}

/// What to say in place of a picture or file for which there are not enough bytes left.
fn without_binary(part: &ResultPart, bytes_left: &mut usize) -> Option<String> {
    let (ResultPart::Image(Image { source, .. }) | ResultPart::File(Document { source, .. })) =
        part
    else {
        return None;
    };
    let Source::Base64 { data, media_type } = source else {
        return None;
    };
    let size = data.len() / 4 * 3;
    match bytes_left.checked_sub(size) {
        Some(left) => {
            *bytes_left = left;
            None
        }
        None => Some(format!(
            "[a {media_type} of {size} bytes was left out: at most {TOOL_BINARY_BYTES_MAX} are kept]"
        )),
    }
}

/// Cuts the middle out: the start says what it is, the end how it came out.
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

/// Everything a tool function may return: text, a [`ToolOutput`], or any serializable value.
pub trait IntoToolOutput {
    /// Converts.
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
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s213_responses_of_every_kind() {
        assert_eq!(ToolOutput::text("a").to_text(), "a");
        assert!(ToolOutput::error("a").is_error);
        assert_eq!(ToolOutput::json(&json!({"a": 1})).to_text(), r#"{"a":1}"#);
        let unmarshalable = std::collections::HashMap::from([((1, 2), 3)]);
        assert!(ToolOutput::json(&unmarshalable).is_error);
        assert!(matches!(ToolOutput::image(Image::url("u")).parts[..], [ResultPart::Image(_)]));
        let file = ToolOutput::file(Document::bytes("a.txt", "text/plain", b"abc"));
        match &file.parts[..] {
            [ResultPart::File(file)] => assert_eq!(file.source.decode().unwrap(), b"abc"),
            other => panic!("{other:?}"),
        }
        let with = ToolOutput::text("a").with_metadata(json!({"k": 1}));
        assert_eq!(with.metadata, Some(json!({"k": 1})));
        assert_eq!(with.clone().with_metadata(None::<u8>).metadata, with.metadata);
    }

    #[test]
    fn every_serializable_value_is_an_output() {
        assert_eq!("text".into_tool_output().to_text(), "text");
        assert_eq!(String::from("text").into_tool_output().to_text(), "text");
        assert_eq!(3.5.into_tool_output().to_text(), "3.5");
        assert_eq!(().into_tool_output().to_text(), "done");
        assert_eq!(vec![1, 2].into_tool_output().to_text(), "[1,2]");
    }

    #[test]
    fn a_huge_text_keeps_its_start_and_end() {
        let text = format!("start{}é end", "ü".repeat(25 * 1024 * 1024));
        let cut = ToolOutput::text(text).bounded().to_text();
        assert!(cut.len() <= TOOL_OUTPUT_BYTES_MAX + 64, "{}", cut.len());
        assert!(cut.starts_with("start") && cut.ends_with("é end"));
        assert!(cut.contains("bytes cut"));
    }

    #[test]
    fn a_huge_file_is_replaced_by_a_note() {
        let file = Document::bytes("big", "application/zip", vec![0u8; TOOL_BINARY_BYTES_MAX + 10]);
        assert!(ToolOutput::file(file).bounded().to_text().contains("left out"));
    }
}
