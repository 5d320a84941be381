//! Bedrock's content blocks: messages merged so that the roles alternate.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, MediaSource, Message, Reasoning, Role, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::{Serialize, Serializer};

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::arguments::Arguments;
use crate::wire::media::{DocumentForm, IMAGE_NOTE, document_form};
use crate::wire::request::{SUMMARY_HEADING, is_same_model, is_user_side};

const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// User message before a conversation that starts with the assistant.
const OPENING: &str = "(The conversation continues.)";
/// Text of an empty tool result, which the API rejects.
const EMPTY_RESULT: &str = "(no output)";

/// Marker for the end of a part that the vendor caches.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
}

pub(super) const DEFAULT_POINT: CachePoint = CachePoint { kind: "default" };

/// A part of a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image(ImageBlock<'a>),
    Document(DocumentBlock<'a>),
    ReasoningContent(ReasoningBlock<'a>),
    ToolUse(ToolUseBlock<'a>),
    ToolResult(ToolResultBlock<'a>),
    CachePoint(CachePoint),
}

#[derive(Serialize)]
pub(super) struct ImageBlock<'a> {
    format: &'a str,
    source: Bytes<'a>,
}

#[derive(Serialize)]
pub(super) struct DocumentBlock<'a> {
    format: &'static str,
    name: String,
    source: Bytes<'a>,
}

#[derive(Serialize)]
struct Bytes<'a> {
    bytes: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ReasoningBlock<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUseBlock<'a> {
    tool_use_id: &'a str,
    name: &'a str,
    input: Arguments<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResultBlock<'a> {
    tool_use_id: &'a str,
    content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

#[derive(Serialize)]
struct BedrockMessage<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// The messages of a request with alternating roles, and the texts of its system messages.
pub(super) struct BedrockMessages<'a> {
    messages: Vec<BedrockMessage<'a>>,
    /// Texts of system messages, for the system prompt.
    pub(super) system: Vec<&'a str>,
    /// True if the conversation contains a tool call.
    pub(super) uses_tools: bool,
    /// Number of documents so far. The API requires a unique name for each document.
    documents: usize,
}

impl Serialize for BedrockMessages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.messages.serialize(serializer)
    }
}

impl<'a> Block<'a> {
    pub(super) fn text(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }

    pub(super) fn cache_point() -> Self {
        Self::CachePoint(DEFAULT_POINT)
    }

    /// Converts an image. Returns text instead for a link, or if the model does not accept images.
    fn image(image: &'a Image, info: &ModelInfo) -> Self {
        match &image.source {
            _ if !info.images => Self::text(Cow::Borrowed(IMAGE_NOTE)),
            MediaSource::Base64 { media_type, data } => {
                let format = media_type.strip_prefix("image/").unwrap_or(media_type);
                let format = if format == "jpg" { "jpeg" } else { format };
                Self::Image(ImageBlock { format, source: Bytes { bytes: data } })
            }
            // The API does not fetch images from URLs.
            MediaSource::Url(url) => Self::text(Cow::Owned(format!("[an image: {url}]"))),
        }
    }

    /// Converts reasoning, with unchanged data. `None` if another provider signed it.
    fn reasoning(reasoning: &'a Reasoning) -> Option<Self> {
        let opaque = reasoning.opaque.as_ref().filter(|opaque| opaque.provider == PROVIDER)?;
        let block = match opaque.kind.as_str() {
            SIGNATURE => {
                ReasoningBlock::ReasoningText { text: &reasoning.text, signature: &opaque.data }
            }
            REDACTED => ReasoningBlock::RedactedContent(&opaque.data),
            _ => return None,
        };
        Some(Self::ReasoningContent(block))
    }
}

impl<'a> BedrockMessages<'a> {
    pub(super) fn new(request: &'a ChatRequest, info: &ModelInfo) -> Self {
        let mut conversation =
            Self { messages: Vec::new(), system: Vec::new(), uses_tools: false, documents: 0 };
        for message in &request.messages {
            match message.role {
                Role::System => {
                    conversation
                        .system
                        .extend(message.parts.iter().filter_map(ContentPart::as_text));
                }
                _ => conversation.push(message, info),
            }
        }
        conversation.drop_trailing_thinking();
        conversation.trim_end();
        if conversation.messages.first().is_some_and(|message| message.role == ASSISTANT) {
            let content = vec![Block::text(Cow::Borrowed(OPENING))];
            conversation.messages.insert(0, BedrockMessage { role: USER, content });
        }
        conversation
    }

    /// Appends the converted parts of a message to the last message if that has the same role, otherwise as a new
    /// message. Does nothing without parts.
    fn push(&mut self, message: &'a Message, info: &ModelInfo) {
        let same_model =
            message.model.as_deref().is_none_or(|model| is_same_model(model, &info.model));
        let mut content = Vec::with_capacity(message.parts.len());
        for part in &message.parts {
            let block = match part {
                ContentPart::Text { text } if text.trim().is_empty() => continue,
                ContentPart::Text { text } => Block::text(Cow::Borrowed(text)),
                ContentPart::Image(image) => Block::image(image, info),
                ContentPart::Document(document) => self.document(document),
                ContentPart::Reasoning(reasoning) => match Block::reasoning(reasoning) {
                    Some(block) if same_model => block,
                    _ => continue,
                },
                ContentPart::ToolCall(call) => {
                    self.uses_tools = true;
                    Block::ToolUse(ToolUseBlock {
                        tool_use_id: &call.id,
                        name: &call.name,
                        input: Arguments::parse(&call.arguments),
                    })
                }
                ContentPart::ToolResult(result) => self.result(result, info),
                ContentPart::Unknown(_) => continue,
            };
            content.push(block);
        }
        if content.is_empty() {
            return;
        }
        if message.role == Role::Summary {
            content.insert(0, Block::text(Cow::Borrowed(SUMMARY_HEADING)));
        }
        let role = if is_user_side(message.role) { USER } else { ASSISTANT };
        if role == USER {
            self.drop_trailing_thinking();
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => self.messages.push(BedrockMessage { role, content }),
        }
    }

    /// Converts a document. A PDF gets a unique name; other documents become text.
    fn document(&mut self, document: &'a Document) -> Block<'a> {
        let name = document.name.as_deref().unwrap_or("document");
        match document_form(document) {
            DocumentForm::Pdf(data) => {
                self.documents += 1;
                Block::Document(DocumentBlock {
                    format: "pdf",
                    name: format!("{} {}", document_name(name), self.documents),
                    source: Bytes { bytes: data },
                })
            }
            DocumentForm::Text(text) => Block::text(Cow::Owned(format!("{name}:\n{text}"))),
            DocumentForm::Url(url) => Block::text(Cow::Owned(format!("{name}: {url}"))),
            DocumentForm::Note(note) => Block::text(Cow::Owned(note)),
        }
    }

    /// Converts a tool result. An empty result gets a placeholder text.
    fn result(&mut self, result: &'a ToolResult, info: &ModelInfo) -> Block<'a> {
        let mut content = Vec::with_capacity(result.parts.len());
        for part in &result.parts {
            match part {
                ToolResultPart::Text { text } if text.trim().is_empty() => {}
                ToolResultPart::Text { text } => content.push(Block::text(Cow::Borrowed(text))),
                ToolResultPart::Image(image) => content.push(Block::image(image, info)),
                ToolResultPart::File(file) => content.push(self.document(file)),
                ToolResultPart::Unknown(_) => {}
            }
        }
        if content.is_empty() {
            content.push(Block::text(Cow::Borrowed(EMPTY_RESULT)));
        }
        let status = result.is_error.then_some("error");
        Block::ToolResult(ToolResultBlock { tool_use_id: &result.call_id, content, status })
    }

    /// Removes reasoning from the end of the last assistant message and the message itself if it is then empty. The API
    /// rejects an assistant message that ends in reasoning, as an interrupted response can.
    fn drop_trailing_thinking(&mut self) {
        let Some(message) = self.messages.last_mut().filter(|message| message.role == ASSISTANT)
        else {
            return;
        };
        while let Some(Block::ReasoningContent(_)) = message.content.last() {
            message.content.pop();
        }
        if message.content.is_empty() {
            self.messages.pop();
        }
    }

    /// Trims the last assistant text, because the API rejects trailing white space.
    fn trim_end(&mut self) {
        let Some(message) = self.messages.last_mut().filter(|message| message.role == ASSISTANT)
        else {
            return;
        };
        if let Some(Block::Text(text)) = message.content.last_mut() {
            *text = Cow::Owned(text.trim_end().to_owned());
        }
    }

    /// Marks the end of the last user message for the prompt cache.
    pub(super) fn mark_cache(&mut self) {
        if let Some(message) = self.messages.last_mut().filter(|message| message.role == USER) {
            message.content.push(Block::cache_point());
        }
    }
}

/// Returns a name of letters, digits, hyphens and single spaces, which the API accepts.
fn document_name(name: &str) -> String {
    let stem = name.strip_suffix(".pdf").unwrap_or(name);
    let plain: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() { "document".to_owned() } else { words.join(" ") }
}
