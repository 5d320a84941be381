//! Messages as Bedrock's content blocks, in turns that alternate.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, MediaSource, Message, Reasoning, Role, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::{Serialize, Serializer};

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::piece::{
    Arguments, IMAGE_NOTE, Readable, SUMMARY_HEADING, is_same_model, is_user_side, readable,
};

const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// What the user says where a conversation would begin with the model.
const OPENING: &str = "(The conversation continues.)";
/// What stands for a result that says nothing, which the vendor refuses.
const NOTHING: &str = "(no output)";

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
}

pub(super) const DEFAULT_POINT: CachePoint = CachePoint { kind: "default" };

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Block<'a> {
    Text(Cow<'a, str>),
    Image(Picture<'a>),
    Document(Paper<'a>),
    ReasoningContent(Thought<'a>),
    ToolUse(Use<'a>),
    ToolResult(Outcome<'a>),
    CachePoint(CachePoint),
}

#[derive(Serialize)]
pub(super) struct Picture<'a> {
    format: &'a str,
    source: Bytes<'a>,
}

#[derive(Serialize)]
pub(super) struct Paper<'a> {
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
pub(super) enum Thought<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Use<'a> {
    tool_use_id: &'a str,
    name: &'a str,
    input: Arguments<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome<'a> {
    tool_use_id: &'a str,
    content: Vec<Block<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// A conversation in turns that alternate.
pub(super) struct Turns<'a> {
    turns: Vec<Turn<'a>>,
    /// Texts of system messages, for the system prompt.
    pub(super) system: Vec<&'a str>,
    /// True if there is a tool call in it.
    pub(super) uses_tools: bool,
    /// Documents so far: the vendor wants each to have a name of its own.
    documents: usize,
}

impl Serialize for Turns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.turns.serialize(serializer)
    }
}

impl<'a> Block<'a> {
    pub(super) fn text(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }

    pub(super) fn cache_point() -> Self {
        Self::CachePoint(DEFAULT_POINT)
    }

    fn image(image: &'a Image, info: &ModelInfo) -> Self {
        match &image.source {
            _ if !info.images => Self::text(Cow::Borrowed(IMAGE_NOTE)),
            MediaSource::Base64 { media_type, data } => {
                let format = media_type.strip_prefix("image/").unwrap_or(media_type);
                let format = if format == "jpg" { "jpeg" } else { format };
                Self::Image(Picture { format, source: Bytes { bytes: data } })
            }
            // The vendor fetches nothing from the web.
            MediaSource::Url(url) => Self::text(Cow::Owned(format!("[an image: {url}]"))),
        }
    }

    /// Only what this provider signed goes back to it, byte for byte.
    fn thought(reasoning: &'a Reasoning) -> Option<Self> {
        let opaque = reasoning.opaque.as_ref().filter(|opaque| opaque.provider == PROVIDER)?;
        let thought = match opaque.kind.as_str() {
            SIGNATURE => Thought::ReasoningText { text: &reasoning.text, signature: &opaque.data },
            REDACTED => Thought::RedactedContent(&opaque.data),
            _ => return None,
        };
        Some(Self::ReasoningContent(thought))
    }
}

impl<'a> Turns<'a> {
    pub(super) fn new(request: &'a ChatRequest, info: &ModelInfo) -> Self {
        let mut turns =
            Self { turns: Vec::new(), system: Vec::new(), uses_tools: false, documents: 0 };
        for message in &request.messages {
            match message.role {
                Role::System => {
                    turns.system.extend(message.parts.iter().filter_map(ContentPart::as_text));
                }
                _ => turns.push(message, info),
            }
        }
        turns.drop_last_thoughts();
        turns.trim_end();
        if turns.turns.first().is_some_and(|turn| turn.role == ASSISTANT) {
            let content = vec![Block::text(Cow::Borrowed(OPENING))];
            turns.turns.insert(0, Turn { role: USER, content });
        }
        turns
    }

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
                ContentPart::Reasoning(reasoning) => match Block::thought(reasoning) {
                    Some(thought) if same_model => thought,
                    _ => continue,
                },
                ContentPart::ToolCall(call) => {
                    self.uses_tools = true;
                    Block::ToolUse(Use {
                        tool_use_id: &call.id,
                        name: &call.name,
                        input: Arguments::read(&call.arguments),
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
            self.drop_last_thoughts();
        }
        match self.turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(content),
            _ => self.turns.push(Turn { role, content }),
        }
    }

    fn document(&mut self, document: &'a Document) -> Block<'a> {
        let name = document.name.as_deref().unwrap_or("document");
        match readable(document) {
            Readable::Pdf(data) => {
                self.documents += 1;
                Block::Document(Paper {
                    format: "pdf",
                    name: format!("{} {}", paper_name(name), self.documents),
                    source: Bytes { bytes: data },
                })
            }
            Readable::Text(text) => Block::text(Cow::Owned(format!("{name}:\n{text}"))),
            Readable::Url(url) => Block::text(Cow::Owned(format!("{name}: {url}"))),
            Readable::Note(note) => Block::text(Cow::Owned(note)),
        }
    }

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
            content.push(Block::text(Cow::Borrowed(NOTHING)));
        }
        let status = result.is_error.then_some("error");
        Block::ToolResult(Outcome { tool_use_id: &result.call_id, content, status })
    }

    /// The vendor refuses a turn of the model that ends in thinking, as one that was cut off does.
    fn drop_last_thoughts(&mut self) {
        let Some(turn) = self.turns.last_mut().filter(|turn| turn.role == ASSISTANT) else {
            return;
        };
        while let Some(Block::ReasoningContent(_)) = turn.content.last() {
            turn.content.pop();
        }
        if turn.content.is_empty() {
            self.turns.pop();
        }
    }

    /// The vendor refuses a last assistant text that ends in white space.
    fn trim_end(&mut self) {
        let Some(turn) = self.turns.last_mut().filter(|turn| turn.role == ASSISTANT) else {
            return;
        };
        if let Some(Block::Text(text)) = turn.content.last_mut() {
            *text = Cow::Owned(text.trim_end().to_owned());
        }
    }

    /// Marks the end of the last user turn for the prompt cache.
    pub(super) fn mark_cache(&mut self) {
        if let Some(turn) = self.turns.last_mut().filter(|turn| turn.role == USER) {
            turn.content.push(Block::cache_point());
        }
    }
}

/// The vendor takes letters, digits, single spaces, hyphens and brackets in a document's name.
fn paper_name(name: &str) -> String {
    let stem = name.strip_suffix(".pdf").unwrap_or(name);
    let plain: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { ' ' }).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() { "document".to_owned() } else { words.join(" ") }
}
