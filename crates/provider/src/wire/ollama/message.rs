//! Ollama's messages: a text with a list of images.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, MediaSource, Message, Role, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::OllamaChat;
use crate::wire::arguments::Arguments;
use crate::wire::media::{DocumentForm, IMAGE_NOTE, document_form};
use crate::wire::request::SUMMARY_HEADING;

/// The messages of a request. Serialization converts one message at a time.
pub(super) struct Messages<'a> {
    pub(super) wire: &'a OllamaChat,
    pub(super) request: &'a ChatRequest,
    pub(super) info: &'a ModelInfo,
}

#[derive(Serialize, Default)]
struct WireMessage<'a> {
    role: &'static str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallParam<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct ToolCallParam<'a> {
    id: &'a str,
    function: CallFunction<'a>,
}

#[derive(Serialize)]
struct CallFunction<'a> {
    name: &'a str,
    arguments: Arguments<'a>,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        if let Some(system) = &self.request.system {
            let content = Cow::Borrowed(&**system);
            let message = WireMessage { role: "system", content, ..WireMessage::default() };
            seq.serialize_element(&message)?;
        }
        for message in &self.request.messages {
            for result in message.tool_results() {
                seq.serialize_element(&self.result_message(result))?;
            }
            let wire_message = match message.role {
                Role::Tool => None,
                Role::Assistant => self.assistant_message(message),
                _ => self.user_message(message),
            };
            if let Some(wire_message) = wire_message {
                seq.serialize_element(&wire_message)?;
            }
        }
        seq.end()
    }
}

impl Messages<'_> {
    /// Converts a user, system or summary message. `None` if it has no content for this API.
    fn user_message<'m>(&self, message: &'m Message) -> Option<WireMessage<'m>> {
        let role = if message.role == Role::System { "system" } else { "user" };
        let mut content = MessageContent::default();
        for part in &message.parts {
            match part {
                ContentPart::Text { text } => content.add_text(Cow::Borrowed(text)),
                ContentPart::Image(image) => content.add_image(image, self.info),
                ContentPart::Document(document) => content.add_document(document),
                _ => {}
            }
        }
        if content.is_empty() {
            return None;
        }
        if message.role == Role::Summary {
            content.text = Cow::Owned(format!("{SUMMARY_HEADING}\n\n{}", content.text));
        }
        let MessageContent { text: content, images } = content;
        Some(WireMessage { role, content, images, ..WireMessage::default() })
    }

    /// Converts an assistant message. `None` if it has neither text nor tool calls.
    fn assistant_message<'m>(&self, message: &'m Message) -> Option<WireMessage<'m>> {
        let mut content = MessageContent::default();
        for text in message.parts.iter().filter_map(ContentPart::as_text) {
            content.text = join(content.text, text);
        }
        let tool_calls: Vec<ToolCallParam<'m>> = message
            .tool_calls()
            .map(|call| ToolCallParam {
                id: &call.id,
                function: CallFunction {
                    name: &call.name,
                    arguments: Arguments::parse(&call.arguments),
                },
            })
            .collect();
        if content.is_empty() && tool_calls.is_empty() {
            return None;
        }
        let mut thinking = Cow::Borrowed("");
        for reasoning in message.reasoning().filter(|_| self.wire.replay_reasoning) {
            thinking = join(thinking, &reasoning.text);
        }
        Some(WireMessage {
            role: "assistant",
            content: content.text,
            thinking: Some(thinking).filter(|text| !text.is_empty()),
            tool_calls,
            ..WireMessage::default()
        })
    }

    /// Converts a tool result. The text of an error result starts with `Error:`.
    fn result_message<'m>(&self, result: &'m ToolResult) -> WireMessage<'m> {
        let mut content = MessageContent::default();
        for part in &result.parts {
            match part {
                ToolResultPart::Text { text } => content.add_text(Cow::Borrowed(text)),
                ToolResultPart::Image(image) => content.add_image(image, self.info),
                ToolResultPart::File(file) => content.add_document(file),
                ToolResultPart::Unknown(_) => {}
            }
        }
        // The API has no error flag for results, so the text contains it.
        let has_prefix =
            content.text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
        if result.is_error && !has_prefix {
            content.text = Cow::Owned(format!("Error: {}", content.text));
        }
        WireMessage {
            role: "tool",
            content: content.text,
            images: content.images,
            tool_name: Some(&result.name),
            tool_call_id: Some(&result.call_id).filter(|id| !id.is_empty()).map(String::as_str),
            ..WireMessage::default()
        }
    }
}

/// Text and images of a message.
#[derive(Default)]
struct MessageContent<'a> {
    text: Cow<'a, str>,
    images: Vec<&'a str>,
}

impl<'a> MessageContent<'a> {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.images.is_empty()
    }

    /// Appends a text on a new line.
    fn add_text(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = text;
        } else if !text.is_empty() {
            let all = self.text.to_mut();
            all.push('\n');
            all.push_str(&text);
        }
    }

    /// Adds an image. Adds a note instead if the model does not accept images, and a link as text.
    fn add_image(&mut self, image: &'a Image, info: &ModelInfo) {
        match &image.source {
            _ if !info.images => self.add_text(Cow::Borrowed(IMAGE_NOTE)),
            MediaSource::Base64 { data, .. } => self.images.push(data),
            // The server does not fetch images from URLs.
            MediaSource::Url(url) => self.add_text(Cow::Owned(format!("[an image: {url}]"))),
        }
    }

    /// Adds a document as text. Adds a note instead if it cannot be shown as text.
    fn add_document(&mut self, document: &'a Document) {
        let name = document.name.as_deref().unwrap_or("document");
        self.add_text(Cow::Owned(match document_form(document) {
            DocumentForm::Text(text) => format!("{name}:\n{text}"),
            DocumentForm::Url(url) => format!("{name}: {url}"),
            DocumentForm::Note(note) => note,
            DocumentForm::Pdf(_) => {
                format!("[the file {name} (application/pdf) cannot be shown to the model]")
            }
        }));
    }
}

/// Appends a text without a separator.
fn join<'a>(text: Cow<'a, str>, more: &'a str) -> Cow<'a, str> {
    match text.is_empty() {
        true => Cow::Borrowed(more),
        false => Cow::Owned(text.into_owned() + more),
    }
}
