//! Anthropic's content blocks: borrowed messages, merged so that the roles alternate.

use std::borrow::Cow;
use std::ops::Range;

use provost_core::{
    ContentPart, Document, Image, MediaSource, Message, Reasoning, Role, ToolResult, ToolResultPart,
};
use provost_model::ModelInfo;
use serde::Serialize;

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::arguments::Arguments;
use crate::wire::media::{DocumentForm, IMAGE_NOTE, document_form};
use crate::wire::request::{SUMMARY_HEADING, is_same_model, is_user_side};

/// User message before a conversation that starts with the assistant.
pub(super) const OPENING: &str = "(The conversation continues.)";
/// User role. The API has only two roles.
pub(super) const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// Prefix of call ids that were escaped.
const ESCAPED_PREFIX: &str = "esc-";

/// Marker for the end of a part that the vendor caches.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

pub(super) const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

/// A content block with an optional cache marker.
#[derive(Serialize)]
pub(super) struct Block<'a> {
    #[serde(flatten)]
    content: BlockContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockContent<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: BlockSource<'a>,
    },
    Document {
        source: BlockSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Arguments<'a>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<BlockContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockSource<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
    Text { media_type: &'static str, data: String },
}

impl<'a> Block<'a> {
    fn new(content: BlockContent<'a>) -> Self {
        Self { content, cache_control: None }
    }

    pub(super) fn text(text: &'a str) -> Self {
        Self::new(BlockContent::text(text))
    }

    pub(super) fn owned_text(text: String) -> Self {
        Self::new(BlockContent::Text { text: Cow::Owned(text) })
    }

    fn is_thinking(&self) -> bool {
        matches!(
            self.content,
            BlockContent::Thinking { .. } | BlockContent::RedactedThinking { .. }
        )
    }
}

/// A message of the request, as a range of [`MessageBlocks::blocks`].
pub(super) struct MessageRange {
    pub(super) role: &'static str,
    pub(super) blocks: Range<usize>,
}

/// The messages of a request with alternating roles, and the texts of its system messages. The blocks of all messages
/// are in one list.
#[derive(Default)]
pub(super) struct MessageBlocks<'a> {
    pub(super) blocks: Vec<Block<'a>>,
    pub(super) messages: Vec<MessageRange>,
    /// Texts of system messages, for the system prompt.
    pub(super) system: Vec<&'a str>,
    /// True if the conversation contains a tool call or a tool result.
    pub(super) uses_tools: bool,
}

impl<'a> MessageBlocks<'a> {
    pub(super) fn new(messages: impl Iterator<Item = &'a Message>, info: &ModelInfo) -> Self {
        let mut conversation = Self::default();
        for message in messages {
            if message.role == Role::System {
                conversation.system.extend(message.parts.iter().filter_map(ContentPart::as_text));
            } else if !message.is_empty() {
                conversation.push(message, info);
            }
        }
        conversation.drop_trailing_thinking();
        conversation.trim_end();
        conversation
    }

    /// Appends the converted parts of a message to the last message if that has the same role, otherwise as a new
    /// message. Does nothing without parts.
    fn push(&mut self, message: &'a Message, info: &ModelInfo) {
        let mut start = self.blocks.len();
        if message.role == Role::Summary {
            self.blocks.push(Block::text(SUMMARY_HEADING));
        }
        let same_model =
            message.model.as_deref().is_none_or(|model| is_same_model(model, &info.model));
        for part in &message.parts {
            match part {
                ContentPart::Reasoning(_) if !same_model => {}
                part => self.blocks.extend(convert_part(part, info)),
            }
        }
        if self.blocks.len() == start {
            return;
        }
        self.uses_tools |= self.blocks[start..].iter().any(|block| {
            matches!(block.content, BlockContent::ToolUse { .. } | BlockContent::ToolResult { .. })
        });
        let role = if is_user_side(message.role) { USER } else { ASSISTANT };
        if role == USER {
            start -= self.drop_trailing_thinking();
        }
        let end = self.blocks.len();
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.blocks.end = end,
            _ => self.messages.push(MessageRange { role, blocks: start..end }),
        }
    }

    /// Removes thinking blocks from the end of the last assistant message and the message itself if it is then empty.
    /// Returns the number of removed blocks.
    ///
    /// The API rejects an assistant message that ends in thinking, as an interrupted response can.
    fn drop_trailing_thinking(&mut self) -> usize {
        let Some(message) = self.messages.last_mut().filter(|message| message.role == ASSISTANT)
        else {
            return 0;
        };
        let blocks = &self.blocks[message.blocks.clone()];
        let thinking_blocks = blocks.iter().rev().take_while(|block| block.is_thinking()).count();
        let end = message.blocks.end;
        message.blocks.end -= thinking_blocks;
        self.blocks.drain(message.blocks.end..end);
        if message.blocks.is_empty() {
            self.messages.pop();
        }
        thinking_blocks
    }

    /// Returns true if the conversation starts with an assistant message, which the API rejects.
    pub(super) fn starts_with_assistant(&self) -> bool {
        self.messages.first().is_some_and(|message| message.role == ASSISTANT)
    }

    /// Trims the last assistant text, because the API rejects trailing white space.
    fn trim_end(&mut self) {
        if self.messages.last().is_none_or(|message| message.role != ASSISTANT) {
            return;
        }
        if let Some(Block { content: BlockContent::Text { text }, .. }) = self.blocks.last_mut() {
            let length = text.trim_end().len();
            match text {
                Cow::Borrowed(text) => *text = &text[..length],
                Cow::Owned(text) => text.truncate(length),
            }
        }
    }

    /// Marks the end of the last user message for the prompt cache.
    pub(super) fn mark_cache(&mut self) {
        let ends_with_user = self.messages.last().is_some_and(|message| message.role == USER);
        if let Some(block) = self.blocks.last_mut().filter(|_| ends_with_user) {
            block.cache_control = Some(EPHEMERAL);
        }
    }

    /// Returns true if the conversation ends with tool results and the assistant message before them starts without
    /// thinking.
    ///
    /// The API then rejects a thinking budget.
    pub(super) fn forbids_budget(&self) -> bool {
        let mut messages = self.messages.iter().rev();
        let (Some(last), Some(before)) = (messages.next(), messages.next()) else {
            return false;
        };
        let answers_calls = self.blocks[last.blocks.clone()]
            .iter()
            .any(|block| matches!(block.content, BlockContent::ToolResult { .. }));
        let has_thinking =
            self.blocks[before.blocks.clone()].first().is_some_and(Block::is_thinking);
        answers_calls && !has_thinking
    }
}

/// Converts a part of a message. `None` if it is blank, unknown, or reasoning of another provider.
fn convert_part<'a>(part: &'a ContentPart, info: &ModelInfo) -> Option<Block<'a>> {
    let content = match part {
        ContentPart::Text { text } if text.trim().is_empty() => return None,
        ContentPart::Text { text } => BlockContent::text(text),
        ContentPart::Image(image) => BlockContent::image(image, info),
        ContentPart::Document(document) => BlockContent::document(document),
        ContentPart::Reasoning(reasoning) => thinking_block(reasoning)?,
        ContentPart::ToolCall(call) => BlockContent::ToolUse {
            id: escape_call_id(&call.id),
            name: &call.name,
            input: Arguments::parse(&call.arguments),
        },
        ContentPart::ToolResult(result) => BlockContent::result(result, info),
        ContentPart::Unknown(_) => return None,
    };
    Some(Block::new(content))
}

/// Converts reasoning, with unchanged data. `None` if another provider signed it.
fn thinking_block(reasoning: &Reasoning) -> Option<BlockContent<'_>> {
    let opaque = reasoning.opaque.as_ref()?;
    match (opaque.provider.as_str(), opaque.kind.as_str()) {
        (PROVIDER, SIGNATURE) => {
            Some(BlockContent::Thinking { thinking: &reasoning.text, signature: &opaque.data })
        }
        (PROVIDER, REDACTED) => Some(BlockContent::RedactedThinking { data: &opaque.data }),
        _ => None,
    }
}

/// Escapes a call id of another vendor that contains characters which the API rejects. Each such character becomes `-`
/// and two hexadecimal digits.
///
/// Different ids stay different, because otherwise a result could match another call. Therefore `-` itself and ids that
/// start with the prefix are escaped too.
fn escape_call_id(id: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_allowed = |byte: u8| is_plain(byte) || byte == b'-';
    if !id.is_empty() && !id.starts_with(ESCAPED_PREFIX) && id.bytes().all(is_allowed) {
        return Cow::Borrowed(id);
    }
    let mut escaped = String::from(ESCAPED_PREFIX);
    for byte in id.bytes() {
        match is_plain(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("-{byte:02x}")),
        }
    }
    Cow::Owned(escaped)
}

impl<'a> BlockContent<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text) }
    }

    /// Converts an image, or returns a note if the model does not accept images.
    fn image(image: &'a Image, info: &ModelInfo) -> Self {
        if !info.images {
            return Self::text(IMAGE_NOTE);
        }
        let source = match &image.source {
            MediaSource::Url(url) => BlockSource::Url { url },
            MediaSource::Base64 { media_type, data } => BlockSource::Base64 { media_type, data },
        };
        Self::Image { source }
    }

    /// Converts a document, or returns a note if the model cannot read it.
    fn document(document: &'a Document) -> Self {
        let source = match document_form(document) {
            DocumentForm::Pdf(data) => BlockSource::Base64 { media_type: "application/pdf", data },
            DocumentForm::Text(data) => BlockSource::Text { media_type: "text/plain", data },
            DocumentForm::Url(url) => BlockSource::Url { url },
            DocumentForm::Note(note) => {
                return Self::Text { text: Cow::Owned(note) };
            }
        };
        Self::Document { source, title: document.name.as_deref() }
    }

    /// Converts a tool result with its images and files.
    fn result(result: &'a ToolResult, info: &ModelInfo) -> Self {
        let content = result.parts.iter().filter_map(|part| match part {
            ToolResultPart::Text { text } if text.trim().is_empty() => None,
            ToolResultPart::Text { text } => Some(Self::text(text)),
            ToolResultPart::Image(image) => Some(Self::image(image, info)),
            ToolResultPart::File(file) => Some(Self::document(file)),
            ToolResultPart::Unknown(_) => None,
        });
        Self::ToolResult {
            tool_use_id: escape_call_id(&result.call_id),
            content: content.collect(),
            is_error: result.is_error,
        }
    }
}
