//! What messages are made of.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One piece of a message.
///
/// A kind that this version does not know is kept as [`Part::Unknown`], so that storing a message again loses nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Image),
    /// A document or any other file.
    Document(Document),
    /// What the model thought before it answered.
    Reasoning(Reasoning),
    /// A tool call the model asks for.
    ToolCall(ToolCall),
    /// What a tool call gave.
    ToolResult(ToolResult),
    /// A part written by a newer version, kept as it was.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Value),
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<Image> for Part {
    fn from(image: Image) -> Self {
        Self::Image(image)
    }
}

impl From<Document> for Part {
    fn from(document: Document) -> Self {
        Self::Document(document)
    }
}

/// Where the bytes of an image or a document are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The provider fetches them.
    Url(String),
    /// They are here, in base 64 as every wire wants them.
    Base64 {
        /// MIME type.
        media_type: String,
        /// Standard base 64 with padding.
        data: String,
    },
}

impl Source {
    /// Takes bytes in.
    pub fn bytes(media_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::Base64 { media_type: media_type.into(), data: BASE64.encode(bytes) }
    }

    /// The bytes, if they are here and well formed.
    pub fn decode(&self) -> Option<Vec<u8>> {
        match self {
            Self::Url(_) => None,
            Self::Base64 { data, .. } => BASE64.decode(data).ok(),
        }
    }
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// Where it is.
    pub source: Source,
    /// How closely the model should look: `low`, `high` or `auto`, where the vendor knows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Image {
    /// A picture the provider fetches.
    pub fn url(url: impl Into<String>) -> Self {
        Self { source: Source::Url(url.into()), detail: None }
    }

    /// A picture sent along.
    pub fn bytes(media_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self { source: Source::bytes(media_type, bytes), detail: None }
    }
}

/// A document or any other file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Where it is.
    pub source: Source,
    /// Its name, for people and for models that show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl Document {
    /// A file sent along.
    pub fn bytes(
        name: impl Into<String>,
        media_type: impl Into<String>,
        bytes: impl AsRef<[u8]>,
    ) -> Self {
        Self { source: Source::bytes(media_type, bytes), name: Some(name.into()) }
    }
}

/// Data that only one provider understands: a signature, encrypted reasoning.
///
/// Kept byte for byte, replayed only to the provider that made it, never edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Opaque {
    /// Whose it is, such as `anthropic`.
    pub provider: String,
    /// What it is in the provider's own words, such as `signature` or `redacted_thinking`.
    pub kind: String,
    /// The data as text, exactly as received.
    pub data: String,
}

/// What the model thought.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reasoning {
    /// The readable part; empty where the provider hides it.
    #[serde(default)]
    pub text: String,
    /// The provider's own data that must come back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
}

/// A tool call the model asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The provider's id of this call; unique within a run.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// The arguments exactly as the model wrote them: usually JSON, but a model can write anything.
    pub arguments: String,
    /// The provider's own data that must come back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Opaque>,
}

impl ToolCall {
    /// A call with arguments in JSON.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: &Value) -> Self {
        // Twice as quick as `to_string`; what is JSON already can always be written.
        let arguments = serde_json::to_string(arguments).unwrap_or_default();
        Self { id: id.into(), name: name.into(), arguments, opaque: None }
    }

    /// The arguments as JSON. No arguments at all mean an empty object.
    pub fn parse_arguments(&self) -> Result<Value, serde_json::Error> {
        if self.arguments.trim().is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        serde_json::from_str(&self.arguments)
    }
}

/// One piece of a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResultPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image(Image),
    /// A file.
    File(Document),
    /// A part written by a newer version, kept as it was.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(Value),
}

impl ResultPart {
    /// The text parts of a result, joined by line breaks.
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

/// What a tool call gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Which call this answers.
    pub call_id: String,
    /// Which tool it was.
    pub name: String,
    /// What the model sees.
    pub parts: Vec<ResultPart>,
    /// True if the call failed; the model is told so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// True while the real result is still awaited from outside.
    ///
    /// A placeholder keeps the history valid for every provider; [`pending`](Self::pending) results are replaced when the
    /// run continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
    /// For the application only: never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

impl ToolResult {
    /// A result of plain text.
    pub fn text(call: &ToolCall, text: impl Into<String>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: call.name.clone(),
            parts: vec![ResultPart::Text { text: text.into() }],
            is_error: false,
            pending: false,
            metadata: None,
        }
    }

    /// A failure the model is told about.
    pub fn error(call: &ToolCall, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(call, text) }
    }

    /// Stands in for a result that somebody outside still owes.
    pub fn placeholder(call: &ToolCall) -> Self {
        Self { pending: true, ..Self::text(call, "The result of this call is not there yet.") }
    }

    /// All text parts, joined by line breaks.
    pub fn to_text(&self) -> String {
        ResultPart::join_text(&self.parts)
    }
}
