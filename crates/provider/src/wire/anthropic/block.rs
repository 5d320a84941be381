//! Messages as Anthropic's content blocks: borrowed, grouped into turns that alternate.

use std::borrow::Cow;
use std::ops::Range;

use provost_core::{
    ContentPart, Document, Image, MediaSource, Message, Reasoning, Role, ToolResult, ToolResultPart,
};
use provost_model::ModelInfo;
use serde::Serialize;

use super::{PROVIDER, REDACTED, SIGNATURE};
use crate::wire::piece::{
    Arguments, IMAGE_NOTE, Readable, SUMMARY_HEADING, is_same_model, is_user_side, readable,
};

/// What the user says where a conversation would begin with the model.
pub(super) const OPENING: &str = "(The conversation continues.)";
/// The vendor's two roles.
pub(super) const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// What a call id begins with that is not sent as it is.
const ESCAPED: &str = "esc-";

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

pub(super) const EPHEMERAL: CacheControl = CacheControl { kind: "ephemeral" };

/// A content block and the mark that ends a cached prefix.
#[derive(Serialize)]
pub(super) struct Block<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
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
        content: Vec<Content<'a>>,
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
    fn new(content: Content<'a>) -> Self {
        Self { content, cache_control: None }
    }

    pub(super) fn text(text: &'a str) -> Self {
        Self::new(Content::text(text))
    }

    pub(super) fn owned_text(text: String) -> Self {
        Self::new(Content::Text { text: Cow::Owned(text) })
    }

    fn is_thinking(&self) -> bool {
        matches!(self.content, Content::Thinking { .. } | Content::RedactedThinking { .. })
    }
}

/// One message of the wire: a range of [`Turns::blocks`].
pub(super) struct Turn {
    pub(super) role: &'static str,
    pub(super) blocks: Range<usize>,
}

/// A conversation in turns that alternate, with all blocks in one place.
#[derive(Default)]
pub(super) struct Turns<'a> {
    pub(super) blocks: Vec<Block<'a>>,
    pub(super) turns: Vec<Turn>,
    /// Texts of system messages, for the system prompt.
    pub(super) system: Vec<&'a str>,
    /// True if there is a tool call or a result in it.
    pub(super) uses_tools: bool,
}

impl<'a> Turns<'a> {
    pub(super) fn new(messages: impl Iterator<Item = &'a Message>, info: &ModelInfo) -> Self {
        let mut turns = Self::default();
        for message in messages {
            if message.role == Role::System {
                turns.system.extend(message.parts.iter().filter_map(ContentPart::as_text));
            } else if !message.is_empty() {
                turns.push(message, info);
            }
        }
        turns.drop_last_thoughts();
        turns.trim_end();
        turns
    }

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
                part => self.blocks.extend(block(part, info)),
            }
        }
        if self.blocks.len() == start {
            return;
        }
        self.uses_tools |= self.blocks[start..].iter().any(|block| {
            matches!(block.content, Content::ToolUse { .. } | Content::ToolResult { .. })
        });
        let role = if is_user_side(message.role) { USER } else { ASSISTANT };
        if role == USER {
            start -= self.drop_last_thoughts();
        }
        let end = self.blocks.len();
        match self.turns.last_mut() {
            Some(last) if last.role == role => last.blocks.end = end,
            _ => self.turns.push(Turn { role, blocks: start..end }),
        }
    }

    /// The vendor refuses a turn of the model that ends in thinking, as one that was cut off does. Without its last thoughts
    /// the turn may be empty; then it goes too. Returns how many blocks went.
    fn drop_last_thoughts(&mut self) -> usize {
        let Some(turn) = self.turns.last_mut().filter(|turn| turn.role == ASSISTANT) else {
            return 0;
        };
        let blocks = &self.blocks[turn.blocks.clone()];
        let thoughts = blocks.iter().rev().take_while(|block| block.is_thinking()).count();
        let end = turn.blocks.end;
        turn.blocks.end -= thoughts;
        self.blocks.drain(turn.blocks.end..end);
        if turn.blocks.is_empty() {
            self.turns.pop();
        }
        thoughts
    }

    /// True if the model would speak first, which the vendor refuses.
    pub(super) fn lacks_opening(&self) -> bool {
        self.turns.first().is_some_and(|turn| turn.role == ASSISTANT)
    }

    /// The vendor refuses a last assistant text that ends in white space.
    fn trim_end(&mut self) {
        if self.turns.last().is_none_or(|turn| turn.role != ASSISTANT) {
            return;
        }
        if let Some(Block { content: Content::Text { text }, .. }) = self.blocks.last_mut() {
            let length = text.trim_end().len();
            match text {
                Cow::Borrowed(text) => *text = &text[..length],
                Cow::Owned(text) => text.truncate(length),
            }
        }
    }

    /// Marks the end of the last user turn for the prompt cache.
    pub(super) fn mark_cache(&mut self) {
        let ends_with_user = self.turns.last().is_some_and(|turn| turn.role == USER);
        if let Some(block) = self.blocks.last_mut().filter(|_| ends_with_user) {
            block.cache_control = Some(EPHEMERAL);
        }
    }

    /// True if the model is in the middle of a tool loop whose last call it did not think about on this wire.
    ///
    /// The vendor then refuses a thinking budget.
    pub(super) fn forbids_budget(&self) -> bool {
        let mut turns = self.turns.iter().rev();
        let (Some(last), Some(before)) = (turns.next(), turns.next()) else {
            return false;
        };
        let answers_calls = self.blocks[last.blocks.clone()]
            .iter()
            .any(|block| matches!(block.content, Content::ToolResult { .. }));
        let thought = self.blocks[before.blocks.clone()].first().is_some_and(Block::is_thinking);
        answers_calls && !thought
    }
}

fn block<'a>(part: &'a ContentPart, info: &ModelInfo) -> Option<Block<'a>> {
    let content = match part {
        ContentPart::Text { text } if text.trim().is_empty() => return None,
        ContentPart::Text { text } => Content::text(text),
        ContentPart::Image(image) => Content::image(image, info),
        ContentPart::Document(document) => Content::document(document),
        ContentPart::Reasoning(reasoning) => thinking(reasoning)?,
        ContentPart::ToolCall(call) => Content::ToolUse {
            id: call_id(&call.id),
            name: &call.name,
            input: Arguments::read(&call.arguments),
        },
        ContentPart::ToolResult(result) => Content::result(result, info),
        ContentPart::Unknown(_) => return None,
    };
    Some(Block::new(content))
}

/// Only what this provider signed goes back to it, byte for byte.
fn thinking(reasoning: &Reasoning) -> Option<Content<'_>> {
    let opaque = reasoning.opaque.as_ref()?;
    match (opaque.provider.as_str(), opaque.kind.as_str()) {
        (PROVIDER, SIGNATURE) => {
            Some(Content::Thinking { thinking: &reasoning.text, signature: &opaque.data })
        }
        (PROVIDER, REDACTED) => Some(Content::RedactedThinking { data: &opaque.data }),
        _ => None,
    }
}

/// Ids of other vendors may hold characters that this one refuses; those are written as `-` and two hexadecimal digits.
///
/// Different ids stay different, or a result would answer another call: so the `-` itself is written like that too, and so is
/// an id that merely looks as if it had been rewritten.
fn call_id(id: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = |byte: u8| is_plain(byte) || byte == b'-';
    if !id.is_empty() && !id.starts_with(ESCAPED) && id.bytes().all(fits) {
        return Cow::Borrowed(id);
    }
    let mut escaped = String::from(ESCAPED);
    for byte in id.bytes() {
        match is_plain(byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("-{byte:02x}")),
        }
    }
    Cow::Owned(escaped)
}

impl<'a> Content<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text) }
    }

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

    fn document(document: &'a Document) -> Self {
        let source = match readable(document) {
            Readable::Pdf(data) => BlockSource::Base64 { media_type: "application/pdf", data },
            Readable::Text(data) => BlockSource::Text { media_type: "text/plain", data },
            Readable::Url(url) => BlockSource::Url { url },
            Readable::Note(note) => {
                return Self::Text { text: Cow::Owned(note) };
            }
        };
        Self::Document { source, title: document.name.as_deref() }
    }

    fn result(result: &'a ToolResult, info: &ModelInfo) -> Self {
        let content = result.parts.iter().filter_map(|part| match part {
            ToolResultPart::Text { text } if text.trim().is_empty() => None,
            ToolResultPart::Text { text } => Some(Self::text(text)),
            ToolResultPart::Image(image) => Some(Self::image(image, info)),
            ToolResultPart::File(file) => Some(Self::document(file)),
            ToolResultPart::Unknown(_) => None,
        });
        Self::ToolResult {
            tool_use_id: call_id(&result.call_id),
            content: content.collect(),
            is_error: result.is_error,
        }
    }
}
