//! A conversation as Gemini's contents: two roles that alternate, parts in order.

use std::borrow::Cow;

use provost_core as core;
use provost_core::{
    Document, Image, MediaSource, Message, Role, ToolCall, ToolResult, ToolResultPart,
};
use provost_model::{ChatRequest, ModelInfo};
use serde::{Serialize, Serializer};

use super::{PROVIDER, SIGNATURE};
use crate::wire::piece::{
    Arguments, IMAGE_NOTE, Readable, SUMMARY_HEADING, is_user_side, readable,
};

/// What a call carries that no model of this vendor has signed: the vendor's own word for that.
const UNSIGNED: &str = "skip_thought_signature_validator";
const USER: &str = "user";
const MODEL: &str = "model";

/// One part.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<Blob<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<File<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Answer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'static str>,
    file_uri: &'a str,
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    name: &'a str,
    args: Arguments<'a>,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    name: &'a str,
    response: Outcome<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

/// The vendor's two words for what a function gave.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

impl<'a> Part<'a> {
    pub(super) fn text(text: Cow<'a, str>) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    fn image(image: &'a Image, info: &ModelInfo) -> Self {
        match info.images {
            false => Self::text(Cow::Borrowed(IMAGE_NOTE)),
            true => Self::source(&image.source),
        }
    }

    fn source(source: &'a MediaSource) -> Self {
        match source {
            MediaSource::Base64 { media_type, data } => {
                let blob = Blob { mime_type: media_type, data };
                Self { inline_data: Some(blob), ..Self::default() }
            }
            MediaSource::Url(url) => {
                let file = File { mime_type: mime_type(url), file_uri: url };
                Self { file_data: Some(file), ..Self::default() }
            }
        }
    }

    fn document(document: &'a Document) -> Self {
        let name = document.name.as_deref().unwrap_or("document");
        match readable(document) {
            Readable::Pdf(_) | Readable::Url(_) => Self::source(&document.source),
            Readable::Text(text) => Self::text(Cow::Owned(format!("{name}:\n{text}"))),
            Readable::Note(note) => Self::text(Cow::Owned(note)),
        }
    }

    fn call(call: &'a ToolCall) -> Self {
        let own = call.opaque.as_ref().filter(|opaque| opaque.provider == PROVIDER);
        Self {
            function_call: Some(Call {
                id: &call.id,
                name: &call.name,
                args: Arguments::read(&call.arguments),
            }),
            thought_signature: own.map(|opaque| opaque.data.as_str()),
            ..Self::default()
        }
    }

    /// Only what this provider signed goes back to it, byte for byte. What the thought was is the vendor's business.
    fn signature(reasoning: &'a core::Reasoning) -> Option<Self> {
        let opaque = reasoning.opaque.as_ref()?;
        let own = opaque.provider == PROVIDER && opaque.kind == SIGNATURE;
        own.then(|| Self {
            text: Some(Cow::Borrowed("")),
            thought_signature: Some(&opaque.data),
            ..Self::default()
        })
    }
}

/// The kind of a file by the end of its address; the vendor looks for itself where it is not known.
fn mime_type(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or(url).to_ascii_lowercase();
    let (_, extension) = path.rsplit_once('.')?;
    Some(match extension {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "pdf" => "application/pdf",
        "txt" => "text/plain",
        _ => return None,
    })
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

/// The conversation.
pub(super) struct Contents<'a> {
    contents: Vec<Content<'a>>,
    /// Texts of system messages, for the instruction.
    pub(super) system: Vec<&'a str>,
}

impl Serialize for Contents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.contents.serialize(serializer)
    }
}

impl<'a> Contents<'a> {
    /// `is_signed` says that the model wants a signature with each first call, and takes pictures inside results.
    pub(super) fn new(request: &'a ChatRequest, info: &ModelInfo, is_signed: bool) -> Self {
        let mut contents = Self { contents: Vec::new(), system: Vec::new() };
        for message in &request.messages {
            if message.role == Role::System {
                contents.system.extend(message.parts.iter().filter_map(core::ContentPart::as_text));
                continue;
            }
            let role = if is_user_side(message.role) { USER } else { MODEL };
            let mut parts = Vec::with_capacity(message.parts.len());
            if message.role == Role::Summary {
                parts.push(Part::text(Cow::Borrowed(SUMMARY_HEADING)));
            }
            push_parts(message, info, is_signed, &mut parts);
            contents.add(role, parts);
        }
        if contents.contents.first().is_some_and(|first| first.role == MODEL) {
            let opening = Part::text(Cow::Borrowed("(The conversation continues.)"));
            contents.contents.insert(0, Content { role: USER, parts: vec![opening] });
        }
        if is_signed {
            contents.mark_unsigned();
        }
        contents
    }

    fn add(&mut self, role: &'static str, parts: Vec<Part<'a>>) {
        if parts.is_empty() {
            return;
        }
        match self.contents.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => self.contents.push(Content { role, parts }),
        }
    }

    /// Says of the first call of each turn that nobody signed it, where nobody did.
    fn mark_unsigned(&mut self) {
        for content in self.contents.iter_mut().filter(|content| content.role == MODEL) {
            let first = content.parts.iter_mut().find(|part| part.function_call.is_some());
            if let Some(first) = first {
                first.thought_signature.get_or_insert(UNSIGNED);
            }
        }
    }
}

fn push_parts<'a>(
    message: &'a Message,
    info: &ModelInfo,
    is_signed: bool,
    parts: &mut Vec<Part<'a>>,
) {
    for part in &message.parts {
        match part {
            core::ContentPart::Text { text } if !text.is_empty() => {
                parts.push(Part::text(Cow::Borrowed(text)));
            }
            core::ContentPart::Image(image) => parts.push(Part::image(image, info)),
            core::ContentPart::Document(document) => parts.push(Part::document(document)),
            core::ContentPart::Reasoning(reasoning) => parts.extend(Part::signature(reasoning)),
            core::ContentPart::ToolCall(call) => parts.push(Part::call(call)),
            core::ContentPart::ToolResult(result) => push_result(result, info, is_signed, parts),
            _ => {}
        }
    }
}

/// A result; what is no text stands inside it, or behind it for models that do not look inside.
fn push_result<'a>(
    result: &'a ToolResult,
    info: &ModelInfo,
    is_inside: bool,
    parts: &mut Vec<Part<'a>>,
) {
    let text = match result.parts.as_slice() {
        [ToolResultPart::Text { text }] => Cow::Borrowed(text.as_str()),
        _ => Cow::Owned(result.to_text()),
    };
    let media = result.parts.iter().filter_map(|part| match part {
        ToolResultPart::Image(image) => Some(Part::image(image, info)),
        ToolResultPart::File(file) => Some(Part::document(file)),
        _ => None,
    });
    let (inside, behind): (Vec<_>, Vec<_>) =
        media.partition(|part| is_inside && part.inline_data.is_some());
    let answer = Answer {
        id: &result.call_id,
        name: &result.name,
        response: if result.is_error { Outcome::Error(text) } else { Outcome::Output(text) },
        parts: inside,
    };
    parts.push(Part { function_response: Some(answer), ..Part::default() });
    parts.extend(behind);
}
