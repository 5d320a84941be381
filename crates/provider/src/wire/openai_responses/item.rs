//! A conversation as the items that OpenAI Responses takes.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, Message, Reasoning, Role, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{OpenAiResponses, REASONING_ITEM};
use crate::wire::piece::{
    Arguments, IMAGE_NOTE, Readable, SUMMARY_HEADING, UrlOf, has_media, is_same_model, readable,
};

/// The conversation, written item by item.
pub(super) struct Input<'a> {
    pub(super) wire: &'a OpenAiResponses,
    pub(super) request: &'a ChatRequest,
    pub(super) info: &'a ModelInfo,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Output<'a>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Output<'a>,
    },
    #[serde(untagged)]
    Sealed(&'a RawValue),
}

/// What is said: a text, or parts.
#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Content<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: UrlOf<'a>, detail: &'a str },
    #[serde(rename = "input_file")]
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<UrlOf<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for message in &self.request.messages {
            for result in message.tool_results() {
                seq.serialize_element(&self.result(result))?;
            }
            match message.role {
                Role::Assistant => self.assistant(message, &mut seq)?,
                Role::Tool => {}
                _ => self.plain(message, &mut seq)?,
            }
        }
        seq.end()
    }
}

impl Input<'_> {
    fn plain<S: SerializeSeq>(&self, message: &Message, seq: &mut S) -> Result<(), S::Error> {
        // The vendor's word for instructions that stand inside a conversation.
        let role = if message.role == Role::System { "developer" } else { "user" };
        let heading = (message.role == Role::Summary).then(|| Content::text(SUMMARY_HEADING));
        let parts = message.parts.iter().filter_map(|part| match part {
            ContentPart::Text { text } if !text.is_empty() => Some(Content::text(text)),
            ContentPart::Image(image) => Some(self.image(image)),
            ContentPart::Document(document) => Some(Content::document(document)),
            _ => None,
        });
        let content: Vec<Content<'_>> = parts.collect();
        if content.is_empty() {
            return Ok(());
        }
        let content = Output::Parts(heading.into_iter().chain(content).collect());
        seq.serialize_element(&Item::Message { role, content })
    }

    /// Text, calls and sealed thoughts in the order in which the model wrote them.
    fn assistant<S: SerializeSeq>(&self, message: &Message, seq: &mut S) -> Result<(), S::Error> {
        let same_model =
            message.model.as_deref().is_none_or(|model| is_same_model(model, &self.info.model));
        // The vendor refuses thoughts that nothing follows, as in an answer that was cut.
        let last = message.parts.iter().rposition(|part| match part {
            ContentPart::Text { text } => !text.is_empty(),
            part => matches!(part, ContentPart::ToolCall(_)),
        });
        let parts = message.parts.iter().take(last.map_or(0, |last| last + 1));
        for part in parts {
            match part {
                ContentPart::Text { text } if !text.is_empty() => {
                    // As plain text: with parts the vendor would want the id that it gave to the message.
                    let content = Output::Text(Cow::Borrowed(text));
                    seq.serialize_element(&Item::Message { role: "assistant", content })?;
                }
                ContentPart::ToolCall(call) => seq.serialize_element(&Item::FunctionCall {
                    call_id: &call.id,
                    name: &call.name,
                    arguments: Arguments::read(&call.arguments).to_text(),
                })?,
                ContentPart::Reasoning(reasoning) if same_model => {
                    if let Some(item) = self.sealed(reasoning) {
                        seq.serialize_element(&item)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Only what this provider sealed goes back to it, byte for byte.
    fn sealed<'r>(&self, reasoning: &'r Reasoning) -> Option<Item<'r>> {
        let opaque = reasoning.opaque.as_ref()?;
        let own = opaque.provider == self.wire.provider && opaque.kind == REASONING_ITEM;
        let raw = serde_json::from_str(&opaque.data).ok().filter(|_| own)?;
        Some(Item::Sealed(raw))
    }

    fn result<'r>(&self, result: &'r ToolResult) -> Item<'r> {
        let output = match has_media(result) {
            false => Output::Text(result_text(result)),
            true => {
                let note = result.is_error.then(|| Content::text("Error:"));
                let parts = result.parts.iter().filter_map(|part| match part {
                    ToolResultPart::Text { text } if !text.is_empty() => Some(Content::text(text)),
                    ToolResultPart::Image(image) => Some(self.image(image)),
                    ToolResultPart::File(file) => Some(Content::document(file)),
                    _ => None,
                });
                Output::Parts(note.into_iter().chain(parts).collect())
            }
        };
        Item::FunctionCallOutput { call_id: &result.call_id, output }
    }

    fn image<'i>(&self, image: &'i Image) -> Content<'i> {
        match self.info.images {
            false => Content::text(IMAGE_NOTE),
            true => Content::Image {
                image_url: UrlOf(&image.source),
                detail: image.detail.as_deref().unwrap_or("auto"),
            },
        }
    }
}

/// The wire has no field for failure, so the text says it.
fn result_text(result: &ToolResult) -> Cow<'_, str> {
    let text = match result.parts.as_slice() {
        [ToolResultPart::Text { text }] => Cow::Borrowed(text.as_str()),
        _ => Cow::Owned(result.to_text()),
    };
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match result.is_error && !says_so {
        true => Cow::Owned(format!("Error: {text}")),
        false => text,
    }
}

impl<'a> Content<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text) }
    }

    fn document(document: &'a Document) -> Self {
        let name = document.name.as_deref();
        let text = match readable(document) {
            Readable::Pdf(_) => {
                return Self::File {
                    filename: Some(name.unwrap_or("document.pdf")),
                    file_data: Some(UrlOf(&document.source)),
                    file_url: None,
                };
            }
            Readable::Url(url) => {
                return Self::File { filename: None, file_data: None, file_url: Some(url) };
            }
            Readable::Text(text) => format!("{}:\n{text}", name.unwrap_or("document")),
            Readable::Note(note) => note,
        };
        Self::Text { text: Cow::Owned(text) }
    }
}
