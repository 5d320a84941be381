//! Content of messages: text, media, tool calls and tool results.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One part of a message.
///
/// A part of a kind that this version does not know is kept as [`ContentPart::Unknown`], so that storing the message
/// again loses nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "Part")]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Image),
    /// A document or any other file.
    Document(Document),
    /// Reasoning of the model before its response.
    Reasoning(Reasoning),
    /// A tool call that the model requests.
    ToolCall(ToolCall),
    /// Result of a tool call.
    ToolResult(ToolResult),
    /// A part written by a newer version, preserved unchanged.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Value),
}

impl ContentPart {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns the text of a text part. `None` for other kinds.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for ContentPart {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for ContentPart {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Image> for ContentPart {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

impl From<Document> for ContentPart {
    fn from(document: Document) -> Self {
        Self::Document(document)
    }
}

/// Location of the bytes of an image or a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Source")]
pub enum MediaSource {
    /// A URL that the provider fetches.
    Url(String),
    /// Bytes in the message itself, in the Base64 form that the vendor protocols use.
    Base64 {
        /// MIME type.
        media_type: String,
        /// Standard Base64 with padding.
        data: String,
    },
}

impl MediaSource {
    /// Creates an inline source from bytes, encoded in Base64.
    pub fn bytes(media_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::Base64 { media_type: media_type.into(), data: BASE64.encode(bytes) }
    }

    /// Decodes the bytes. `None` for a URL and for invalid Base64.
    pub fn decode(&self) -> Option<Vec<u8>> {
        match self {
            Self::Url(_) => None,
            Self::Base64 { data, .. } => BASE64.decode(data).ok(),
        }
    }
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// Location of the bytes.
    pub source: MediaSource,
    /// Resolution at which the model reads the image: `low`, `high` or `auto`. Only some vendors support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Image {
    /// Creates an image that the provider fetches.
    pub fn url(url: impl Into<String>) -> Self {
        Self { source: MediaSource::Url(url.into()), detail: None }
    }

    /// Creates an image from bytes.
    pub fn bytes(media_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self { source: MediaSource::bytes(media_type, bytes), detail: None }
    }
}

/// A document or any other file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Location of the bytes.
    pub source: MediaSource,
    /// File name, for people and for models that display it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Document {
    /// Creates a document from bytes.
    pub fn bytes(
        name: impl Into<String>,
        media_type: impl Into<String>,
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        Self { source: MediaSource::bytes(media_type, bytes), name: Some(name.into()) }
    }
}

/// Data that only one provider can interpret, such as a signature or encrypted reasoning.
///
/// Stored byte for byte, never edited, and sent back only to the provider that created it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Opaque")]
pub struct ProviderData {
    /// Provider that created the data, such as `anthropic`.
    pub provider: String,
    /// Kind of the data, in the provider's terms: `signature`, `redacted_thinking`.
    pub kind: String,
    /// The data as text, exactly as received.
    pub data: String,
}

/// Reasoning of the model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reasoning {
    /// Readable text. Empty if the provider hides it.
    #[serde(default)]
    pub text: String,
    /// Provider data that must be sent back with the reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<ProviderData>,
}

/// A tool call that the model requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The provider's id of the call, unique within a run.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments exactly as the model wrote them: usually JSON, but not guaranteed.
    pub arguments: String,
    /// Provider data that must be sent back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<ProviderData>,
}

impl ToolCall {
    /// Creates a call with JSON arguments.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: &Value) -> Self {
        // Twice as fast as `Value::to_string`. Serializing a `Value` cannot fail.
        let arguments = serde_json::to_string(arguments).unwrap_or_default();
        Self { id: id.into(), name: name.into(), arguments, opaque: None }
    }

    /// Parses the arguments. Empty arguments become an empty object.
    pub fn parse_arguments(&self) -> Result<Value, serde_json::Error> {
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        serde_json::from_str(&self.arguments)
    }
}

/// One part of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "ResultPart")]
pub enum ToolResultPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Image),
    /// A file.
    File(Document),
    /// A part written by a newer version, preserved unchanged.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Value),
}

impl ToolResultPart {
    /// Joins the text parts with line breaks.
    pub fn join_text(parts: &[Self]) -> String {
        let mut text = String::new();
        for part in parts {
            if let Self::Text { text: piece } = part {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(piece);
            }
        }
        text
    }
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Content for the model.
    pub parts: Vec<ToolResultPart>,
    /// True if the call failed. The model receives this flag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// True for a placeholder whose real result is still expected from outside of the run.
    ///
    /// A placeholder keeps the history valid for every provider. It is replaced when the run resumes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// Data for the application. Never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

impl ToolResult {
    /// Creates a successful result with one text part.
    pub fn text(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: call.name.clone(),
            parts: vec![ToolResultPart::Text { text: text.into() }],
            is_error: false,
            pending: false,
            metadata: None,
        }
    }

    /// Creates a failed result with one text part.
    pub fn error(call: &ToolCall, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(call, text) }
    }

    /// Creates a placeholder for a result that is delivered later.
    pub fn placeholder(call: &ToolCall) -> Self {
        Self { pending: true, ..Self::text(call, "The result of this call is not there yet.") }
    }

    /// Joins the text parts with line breaks.
    pub fn to_text(&self) -> String {
        ToolResultPart::join_text(&self.parts)
    }
}
