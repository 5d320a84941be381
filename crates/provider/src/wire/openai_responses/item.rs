//! Items of OpenAI Responses.

use std::borrow::Cow;

use provost_core::{
    ContentPart, Document, Image, Message, Reasoning, Role, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{OpenAiResponses, REASONING_ITEM};
use crate::wire::arguments::Arguments;
use crate::wire::media::{DataUrl, DocumentForm, IMAGE_NOTE, document_form, has_media};
use crate::wire::request::{SUMMARY_HEADING, is_same_model};

/// The messages of a request. Serialization converts one message at a time.
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
        content: ItemContent<'a>,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: ItemContent<'a>,
    },
    #[serde(untagged)]
    EncryptedReasoning(&'a RawValue),
}

/// Content of an item: a text or a list of parts.
#[derive(Serialize)]
#[serde(untagged)]
enum ItemContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<InputContent<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum InputContent<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: DataUrl<'a>, detail: &'a str },
    #[serde(rename = "input_file")]
    File {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<DataUrl<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
    },
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for message in &self.request.messages {
            for result in message.tool_results() {
                seq.serialize_element(&self.result_item(result))?;
            }
            match message.role {
                Role::Assistant => self.write_assistant_message(message, &mut seq)?,
                Role::Tool => {}
                _ => self.write_user_message(message, &mut seq)?,
            }
        }
        seq.end()
    }
}

impl Input<'_> {
    /// Writes a user, system or summary message, unless it has no content for this API.
    fn write_user_message<S: SerializeSeq>(
        &self,
        message: &Message,
        seq: &mut S,
    ) -> Result<(), S::Error> {
        // The API's role for instructions inside a conversation.
        let role = if message.role == Role::System { "developer" } else { "user" };
        let heading = (message.role == Role::Summary).then(|| InputContent::text(SUMMARY_HEADING));
        let parts = message.parts.iter().filter_map(|part| match part {
            ContentPart::Text { text } if !text.is_empty() => Some(InputContent::text(text)),
            ContentPart::Image(image) => Some(self.image(image)),
            ContentPart::Document(document) => Some(InputContent::document(document)),
            _ => None,
        });
        let content: Vec<InputContent<'_>> = parts.collect();
        if content.is_empty() {
            return Ok(());
        }
        let content = ItemContent::Parts(heading.into_iter().chain(content).collect());
        seq.serialize_element(&Item::Message { role, content })
    }

    /// Writes the text, the tool calls and the encrypted reasoning of a message as items, in their order.
    fn write_assistant_message<S: SerializeSeq>(
        &self,
        message: &Message,
        seq: &mut S,
    ) -> Result<(), S::Error> {
        let same_model =
            message.model.as_deref().is_none_or(|model| is_same_model(model, &self.info.model));
        // The API rejects reasoning that no other item follows, as in an interrupted response.
        let last = message.parts.iter().rposition(|part| match part {
            ContentPart::Text { text } => !text.is_empty(),
            part => matches!(part, ContentPart::ToolCall(_)),
        });
        let parts = message.parts.iter().take(last.map_or(0, |last| last + 1));
        for part in parts {
            match part {
                ContentPart::Text { text } if !text.is_empty() => {
                    // As plain text, because a message with parts needs the id that the vendor assigned.
                    let content = ItemContent::Text(Cow::Borrowed(text));
                    seq.serialize_element(&Item::Message { role: "assistant", content })?;
                }
                ContentPart::ToolCall(call) => seq.serialize_element(&Item::FunctionCall {
                    call_id: &call.id,
                    name: &call.name,
                    arguments: Arguments::parse(&call.arguments).to_text(),
                })?,
                ContentPart::Reasoning(reasoning) if same_model => {
                    if let Some(item) = self.encrypted_reasoning(reasoning) {
                        seq.serialize_element(&item)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the encrypted reasoning as an item, with unchanged data. `None` if another provider encrypted it.
    fn encrypted_reasoning<'r>(&self, reasoning: &'r Reasoning) -> Option<Item<'r>> {
        let opaque = reasoning.opaque.as_ref()?;
        let is_own = opaque.provider == self.wire.provider && opaque.kind == REASONING_ITEM;
        let raw = serde_json::from_str(&opaque.data).ok().filter(|_| is_own)?;
        Some(Item::EncryptedReasoning(raw))
    }

    /// Converts a tool result. Without media, it is a text.
    fn result_item<'r>(&self, result: &'r ToolResult) -> Item<'r> {
        let output = match has_media(result) {
            false => ItemContent::Text(result_text(result)),
            true => {
                let note = result.is_error.then(|| InputContent::text("Error:"));
                let parts = result.parts.iter().filter_map(|part| match part {
                    ToolResultPart::Text { text } if !text.is_empty() => {
                        Some(InputContent::text(text))
                    }
                    ToolResultPart::Image(image) => Some(self.image(image)),
                    ToolResultPart::File(file) => Some(InputContent::document(file)),
                    _ => None,
                });
                ItemContent::Parts(note.into_iter().chain(parts).collect())
            }
        };
        Item::FunctionCallOutput { call_id: &result.call_id, output }
    }

    /// Converts an image, or returns a note if the model does not accept images.
    fn image<'i>(&self, image: &'i Image) -> InputContent<'i> {
        match self.info.images {
            false => InputContent::text(IMAGE_NOTE),
            true => InputContent::Image {
                image_url: DataUrl(&image.source),
                detail: image.detail.as_deref().unwrap_or("auto"),
            },
        }
    }
}

/// Returns the text of a result. The API has no error flag for results, so the text contains it.
fn result_text(result: &ToolResult) -> Cow<'_, str> {
    let text = match result.parts.as_slice() {
        [ToolResultPart::Text { text }] => Cow::Borrowed(text.as_str()),
        _ => Cow::Owned(result.to_text()),
    };
    let has_prefix = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match result.is_error && !has_prefix {
        true => Cow::Owned(format!("Error: {text}")),
        false => text,
    }
}

impl<'a> InputContent<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text: Cow::Borrowed(text) }
    }

    fn document(document: &'a Document) -> Self {
        let name = document.name.as_deref();
        let text = match document_form(document) {
            DocumentForm::Pdf(_) => {
                return Self::File {
                    filename: Some(name.unwrap_or("document.pdf")),
                    file_data: Some(DataUrl(&document.source)),
                    file_url: None,
                };
            }
            DocumentForm::Url(url) => {
                return Self::File { filename: None, file_data: None, file_url: Some(url) };
            }
            DocumentForm::Text(text) => format!("{}:\n{text}", name.unwrap_or("document")),
            DocumentForm::Note(note) => note,
        };
        Self::Text { text: Cow::Owned(text) }
    }
}
