//! The messages of Chat Completions.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, Message, Role, ToolCall, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::{OpenAiChat, ReasoningField};
use crate::wire::arguments::Arguments;
use crate::wire::media::{DataUrl, DocumentForm, IMAGE_NOTE, document_form, has_media};
use crate::wire::request::SUMMARY_HEADING;

/// Text of a tool message whose result contains only images or files.
const MEDIA_NOTE: &str = "The result is in the next message.";

/// The messages of a request. Serialization converts one message at a time.
pub(super) struct Messages<'a> {
    pub(super) wire: &'a OpenAiChat,
    pub(super) request: &'a ChatRequest,
    pub(super) info: &'a ModelInfo,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        if let Some(system) = &self.request.system {
            seq.serialize_element(&PlainMessage::text(self.system_role(), system))?;
        }
        // A tool message contains only text, so images follow after the last result of the turn.
        let mut media: Vec<&ToolResult> = Vec::new();
        for message in &self.request.messages {
            if message.is_empty() {
                continue;
            }
            for result in message.tool_results() {
                seq.serialize_element(&ToolMessage::new(result))?;
                if has_media(result) {
                    media.push(result);
                }
            }
            if message.role == Role::Tool {
                continue;
            }
            self.flush_media(&mut media, &mut seq)?;
            match message.role {
                Role::Assistant => {
                    if let Some(assistant) = AssistantMessage::new(message, self.wire) {
                        seq.serialize_element(&assistant)?;
                    }
                }
                _ => self.write_user_message(message, &mut seq)?,
            }
        }
        self.flush_media(&mut media, &mut seq)?;
        seq.end()
    }
}

impl Messages<'_> {
    fn system_role(&self) -> &'static str {
        if self.wire.developer_role { "developer" } else { "system" }
    }

    /// Writes a user, system or summary message, unless it has no content for this API.
    fn write_user_message<S: SerializeSeq>(
        &self,
        message: &Message,
        seq: &mut S,
    ) -> Result<(), S::Error> {
        let role = if message.role == Role::System { self.system_role() } else { "user" };
        let mut parts: Vec<ChatPart<'_>> = Vec::new();
        if message.role == Role::Summary {
            parts.push(ChatPart::text(SUMMARY_HEADING));
        }
        for part in &message.parts {
            match part {
                ContentPart::Text { text } if !text.is_empty() => parts.push(ChatPart::text(text)),
                ContentPart::Image(image) => parts.push(self.image(image)),
                ContentPart::Document(document) => parts.push(ChatPart::document(document)),
                _ => {}
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let join_texts = message.role == Role::Summary || self.wire.plain_content;
        let content = MessageContent::new(parts, join_texts);
        seq.serialize_element(&PlainMessage { role, content })
    }

    /// Writes the media of the collected tool results as a user message, because the API accepts only text in results.
    /// Empties `media`.
    fn flush_media<S: SerializeSeq>(
        &self,
        media: &mut Vec<&ToolResult>,
        seq: &mut S,
    ) -> Result<(), S::Error> {
        if media.is_empty() {
            return Ok(());
        }
        let mut parts = Vec::new();
        for result in media.drain(..) {
            let label = format!("From the result of {} ({}):", result.name, result.call_id);
            parts.push(ChatPart::Text { text: Cow::Owned(label) });
            for part in &result.parts {
                match part {
                    ToolResultPart::Image(image) => parts.push(self.image(image)),
                    ToolResultPart::File(file) => parts.push(ChatPart::document(file)),
                    _ => {}
                }
            }
        }
        seq.serialize_element(&PlainMessage { role: "user", content: MessageContent::Parts(parts) })
    }

    /// Converts an image, or returns a note if the model does not accept images.
    fn image<'i>(&self, image: &'i Image) -> ChatPart<'i> {
        if !self.info.images {
            return ChatPart::text(IMAGE_NOTE);
        }
        ChatPart::ImageUrl {
            image_url: ImageUrl { url: DataUrl(&image.source), detail: image.detail.as_deref() },
        }
    }
}

#[derive(Serialize)]
struct PlainMessage<'a> {
    role: &'static str,
    content: MessageContent<'a>,
}

impl<'a> PlainMessage<'a> {
    fn text(role: &'static str, text: &'a str) -> Self {
        Self { role, content: MessageContent::Text(Cow::Borrowed(text)) }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum MessageContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ChatPart<'a>>),
}

impl<'a> MessageContent<'a> {
    /// Creates the content. It is plain text if possible, because every server accepts that.
    fn new(mut parts: Vec<ChatPart<'a>>, join_texts: bool) -> Self {
        let all_text = parts.iter().all(|part| matches!(part, ChatPart::Text { .. }));
        if let [ChatPart::Text { text }] = parts.as_mut_slice() {
            return Self::Text(std::mem::take(text));
        }
        if all_text && join_texts {
            let texts: Vec<&str> = parts.iter().filter_map(ChatPart::as_text).collect();
            return Self::Text(Cow::Owned(texts.join("\n\n")));
        }
        Self::Parts(parts)
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: DataUrl<'a>,
}

impl<'a> ChatPart<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text) }
    }

    fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// Converts a document to a file, or to text.
    fn document(document: &'a Document) -> Self {
        let name = document.name.as_deref().unwrap_or("document");
        let text = match document_form(document) {
            DocumentForm::Pdf(_) => {
                return Self::File {
                    file: File {
                        filename: document.name.as_deref().unwrap_or("document.pdf"),
                        file_data: DataUrl(&document.source),
                    },
                };
            }
            DocumentForm::Text(text) => format!("{name}:\n{text}"),
            DocumentForm::Url(url) => format!("{name}: {url}"),
            DocumentForm::Note(note) => note,
        };
        Self::Text { text: Cow::Owned(text) }
    }
}

#[derive(Serialize)]
struct AssistantMessage<'a> {
    role: &'static str,
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallParam<'a>>,
}

impl<'a> AssistantMessage<'a> {
    /// Converts an assistant message. `None` if it has no content for this API.
    fn new(message: &'a Message, wire: &OpenAiChat) -> Option<Self> {
        let content = join(message.parts.iter().filter_map(ContentPart::as_text));
        let tool_calls: Vec<ToolCallParam<'a>> =
            message.tool_calls().map(ToolCallParam::new).collect();
        if content.is_none() && tool_calls.is_empty() {
            return None;
        }
        let thoughts = match wire.replay_reasoning {
            true => join(message.reasoning().map(|reasoning| reasoning.text.as_str())),
            false => None,
        };
        let (reasoning_content, reasoning) = match wire.reasoning_field {
            ReasoningField::ReasoningContent => (thoughts, None),
            ReasoningField::Reasoning => (None, thoughts),
        };
        Some(Self { role: "assistant", content, reasoning_content, reasoning, tool_calls })
    }
}

/// Joins the texts that are not empty, without a separator. `None` if all are empty.
fn join<'a>(texts: impl Iterator<Item = &'a str>) -> Option<Cow<'a, str>> {
    let mut texts = texts.filter(|text| !text.is_empty());
    let mut joined = Cow::Borrowed(texts.next()?);
    for text in texts {
        joined.to_mut().push_str(text);
    }
    Some(joined)
}

#[derive(Serialize)]
struct ToolCallParam<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CallFunction<'a>,
}

#[derive(Serialize)]
struct CallFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

impl<'a> ToolCallParam<'a> {
    fn new(call: &'a ToolCall) -> Self {
        Self {
            id: &call.id,
            kind: "function",
            function: CallFunction {
                name: &call.name,
                arguments: Arguments::parse(&call.arguments).to_text(),
            },
        }
    }
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: Cow<'a, str>,
}

impl<'a> ToolMessage<'a> {
    fn new(result: &'a ToolResult) -> Self {
        let mut content = match result.parts.as_slice() {
            [ToolResultPart::Text { text }] => Cow::Borrowed(text.as_str()),
            _ => Cow::Owned(result.to_text()),
        };
        if content.is_empty() && has_media(result) {
            content = Cow::Borrowed(MEDIA_NOTE);
        }
        // The API has no error flag for results, so the text contains it.
        let has_prefix = content.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
        if result.is_error && !has_prefix {
            content = Cow::Owned(format!("Error: {content}"));
        }
        Self { role: "tool", tool_call_id: &result.call_id, content }
    }
}
