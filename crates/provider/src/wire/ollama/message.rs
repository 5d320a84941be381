//! The messages of a conversation as Ollama wants them: text beside a list of images.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, MediaSource, Message, Role, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use super::OllamaChat;
use crate::wire::piece::{Arguments, IMAGE_NOTE, Readable, SUMMARY_HEADING, readable};

/// The conversation, written message by message.
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
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
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
                seq.serialize_element(&self.result(result))?;
            }
            let written = match message.role {
                Role::Tool => None,
                Role::Assistant => self.assistant(message),
                _ => self.plain(message),
            };
            if let Some(written) = written {
                seq.serialize_element(&written)?;
            }
        }
        seq.end()
    }
}

impl Messages<'_> {
    fn plain<'m>(&self, message: &'m Message) -> Option<WireMessage<'m>> {
        let role = if message.role == Role::System { "system" } else { "user" };
        let mut written = Written::default();
        for part in &message.parts {
            match part {
                ContentPart::Text { text } => written.say(Cow::Borrowed(text)),
                ContentPart::Image(image) => written.show(image, self.info),
                ContentPart::Document(document) => written.attach(document),
                _ => {}
            }
        }
        if written.is_empty() {
            return None;
        }
        if message.role == Role::Summary {
            written.text = Cow::Owned(format!("{SUMMARY_HEADING}\n\n{}", written.text));
        }
        let Written { text: content, images } = written;
        Some(WireMessage { role, content, images, ..WireMessage::default() })
    }

    fn assistant<'m>(&self, message: &'m Message) -> Option<WireMessage<'m>> {
        let mut written = Written::default();
        for text in message.parts.iter().filter_map(ContentPart::as_text) {
            written.text = join(written.text, text);
        }
        let tool_calls: Vec<Call<'m>> = message
            .tool_calls()
            .map(|call| Call {
                id: &call.id,
                function: CallFunction {
                    name: &call.name,
                    arguments: Arguments::read(&call.arguments),
                },
            })
            .collect();
        if written.is_empty() && tool_calls.is_empty() {
            return None;
        }
        let mut thinking = Cow::Borrowed("");
        for reasoning in message.reasoning().filter(|_| self.wire.replay_reasoning) {
            thinking = join(thinking, &reasoning.text);
        }
        Some(WireMessage {
            role: "assistant",
            content: written.text,
            thinking: Some(thinking).filter(|text| !text.is_empty()),
            tool_calls,
            ..WireMessage::default()
        })
    }

    fn result<'m>(&self, result: &'m ToolResult) -> WireMessage<'m> {
        let mut written = Written::default();
        for part in &result.parts {
            match part {
                ToolResultPart::Text { text } => written.say(Cow::Borrowed(text)),
                ToolResultPart::Image(image) => written.show(image, self.info),
                ToolResultPart::File(file) => written.attach(file),
                ToolResultPart::Unknown(_) => {}
            }
        }
        // The wire has no field for failure, so the text says it.
        let says_so =
            written.text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
        if result.is_error && !says_so {
            written.text = Cow::Owned(format!("Error: {}", written.text));
        }
        WireMessage {
            role: "tool",
            content: written.text,
            images: written.images,
            tool_name: Some(&result.name),
            tool_call_id: Some(&result.call_id).filter(|id| !id.is_empty()).map(String::as_str),
            ..WireMessage::default()
        }
    }
}

/// What a message says and shows.
#[derive(Default)]
struct Written<'a> {
    text: Cow<'a, str>,
    images: Vec<&'a str>,
}

impl<'a> Written<'a> {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.images.is_empty()
    }

    fn say(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = text;
        } else if !text.is_empty() {
            let all = self.text.to_mut();
            all.push('\n');
            all.push_str(&text);
        }
    }

    fn show(&mut self, image: &'a Image, info: &ModelInfo) {
        match &image.source {
            _ if !info.images => self.say(Cow::Borrowed(IMAGE_NOTE)),
            MediaSource::Base64 { data, .. } => self.images.push(data),
            // The server fetches nothing.
            MediaSource::Url(url) => self.say(Cow::Owned(format!("[an image: {url}]"))),
        }
    }

    fn attach(&mut self, document: &'a Document) {
        let name = document.name.as_deref().unwrap_or("document");
        self.say(Cow::Owned(match readable(document) {
            Readable::Text(text) => format!("{name}:\n{text}"),
            Readable::Url(url) => format!("{name}: {url}"),
            Readable::Note(note) => note,
            Readable::Pdf(_) => {
                format!("[the file {name} (application/pdf) cannot be shown to the model]")
            }
        }));
    }
}

fn join<'a>(text: Cow<'a, str>, more: &'a str) -> Cow<'a, str> {
    match text.is_empty() {
        true => Cow::Borrowed(more),
        false => Cow::Owned(text.into_owned() + more),
    }
}
