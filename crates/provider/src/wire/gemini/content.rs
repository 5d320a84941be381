//! Messages in the format of Gemini. Consecutive messages of one role are merged, because the roles must alternate.

use std::borrow::Cow;

use provost_core as core;
use provost_core::{
    Document, Image, MediaSource, Message, Role, ToolCall, ToolResult, ToolResultPart,
};
use provost_model::ChatRequest;
use serde::{Serialize, Serializer};

use super::{PROVIDER, SIGNATURE};
use crate::wire::arguments::Arguments;
use crate::wire::media::{DocumentForm, IMAGE_NOTE, document_form};
use crate::wire::request::{SUMMARY_HEADING, is_user_side};

/// Signature for a tool call that has no signature. The vendor documents this value.
const SKIP_SIGNATURE_CHECK: &str = "skip_thought_signature_validator";
const USER: &str = "user";
const MODEL: &str = "model";

/// A part of a message: text, data, a thought signature, a function call or its response.
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
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
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
struct FunctionCall<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    name: &'a str,
    args: Arguments<'a>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    name: &'a str,
    response: FunctionOutput<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part<'a>>,
}

/// Output of a function call, in the field for a success or for an error.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum FunctionOutput<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

impl<'a> Part<'a> {
    pub(super) fn text(text: Cow<'a, str>) -> Self {
        Self { text: Some(text), ..Self::default() }
    }

    /// Converts an image. Returns a note as text if the model does not accept images.
    fn image(image: &'a Image, traits: ModelTraits) -> Self {
        match traits.images {
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

    /// Converts a document to data, a link, text, or a note if the model cannot read it.
    fn document(document: &'a Document) -> Self {
        let name = document.name.as_deref().unwrap_or("document");
        match document_form(document) {
            DocumentForm::Pdf(_) | DocumentForm::Url(_) => Self::source(&document.source),
            DocumentForm::Text(text) => Self::text(Cow::Owned(format!("{name}:\n{text}"))),
            DocumentForm::Note(note) => Self::text(Cow::Owned(note)),
        }
    }

    /// Converts a tool call, with its signature if this provider signed it.
    fn call(call: &'a ToolCall) -> Self {
        let signature = call.opaque.as_ref().filter(|opaque| opaque.provider == PROVIDER);
        Self {
            function_call: Some(FunctionCall {
                id: &call.id,
                name: &call.name,
                args: Arguments::parse(&call.arguments),
            }),
            thought_signature: signature.map(|opaque| opaque.data.as_str()),
            ..Self::default()
        }
    }

    /// Creates a part with the signature of a thought. `None` if another provider signed it. The data is unchanged, and
    /// the text of the thought is omitted.
    fn signature(reasoning: &'a core::Reasoning) -> Option<Self> {
        let opaque = reasoning.opaque.as_ref()?;
        let is_own = opaque.provider == PROVIDER && opaque.kind == SIGNATURE;
        is_own.then(|| Self {
            text: Some(Cow::Borrowed("")),
            thought_signature: Some(&opaque.data),
            ..Self::default()
        })
    }
}

/// Returns the media type for the extension of a URL. `None` for unknown extensions; the vendor then detects the type.
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

/// Properties of a model that change the format of messages.
#[derive(Clone, Copy)]
pub(super) struct ModelTraits {
    /// The model accepts images.
    pub(super) images: bool,
    /// The first tool call of each model message must have a signature.
    pub(super) requires_signatures: bool,
    /// A tool result can contain inline images and files.
    pub(super) media_in_results: bool,
}

/// The messages of a request with alternating roles, and the texts of its system messages.
pub(super) struct Contents<'a> {
    contents: Vec<Content<'a>>,
    /// Texts of system messages, for the system instruction.
    pub(super) system: Vec<&'a str>,
}

impl Serialize for Contents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.contents.serialize(serializer)
    }
}

impl<'a> Contents<'a> {
    /// Converts the messages of a request. A conversation that starts with a model message gets an opening user
    /// message, because the vendor rejects it otherwise.
    pub(super) fn new(request: &'a ChatRequest, traits: ModelTraits) -> Self {
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
            push_parts(message, traits, &mut parts);
            contents.push_merged(role, parts);
        }
        if contents.contents.first().is_some_and(|first| first.role == MODEL) {
            let opening = Part::text(Cow::Borrowed("(The conversation continues.)"));
            contents.contents.insert(0, Content { role: USER, parts: vec![opening] });
        }
        if traits.requires_signatures {
            contents.mark_unsigned_calls();
        }
        contents
    }

    /// Appends parts to the last message if it has this role, otherwise as a new message. Does nothing without parts.
    fn push_merged(&mut self, role: &'static str, parts: Vec<Part<'a>>) {
        if parts.is_empty() {
            return;
        }
        match self.contents.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => self.contents.push(Content { role, parts }),
        }
    }

    /// Adds the placeholder signature to the first tool call of each model message if that call has no signature.
    fn mark_unsigned_calls(&mut self) {
        for content in self.contents.iter_mut().filter(|content| content.role == MODEL) {
            let first = content.parts.iter_mut().find(|part| part.function_call.is_some());
            if let Some(first) = first {
                first.thought_signature.get_or_insert(SKIP_SIGNATURE_CHECK);
            }
        }
    }
}

/// Appends the converted parts of a message to `parts`.
fn push_parts<'a>(message: &'a Message, traits: ModelTraits, parts: &mut Vec<Part<'a>>) {
    for part in &message.parts {
        match part {
            core::ContentPart::Text { text } if !text.is_empty() => {
                parts.push(Part::text(Cow::Borrowed(text)));
            }
            core::ContentPart::Image(image) => parts.push(Part::image(image, traits)),
            core::ContentPart::Document(document) => parts.push(Part::document(document)),
            core::ContentPart::Reasoning(reasoning) => parts.extend(Part::signature(reasoning)),
            core::ContentPart::ToolCall(call) => parts.push(Part::call(call)),
            core::ContentPart::ToolResult(result) => push_result(result, traits, parts),
            _ => {}
        }
    }
}

/// Adds a tool result. Inline media is inside the result if the model accepts it there; all other media follows it.
fn push_result<'a>(result: &'a ToolResult, traits: ModelTraits, parts: &mut Vec<Part<'a>>) {
    let text = match result.parts.as_slice() {
        [ToolResultPart::Text { text }] => Cow::Borrowed(text.as_str()),
        _ => Cow::Owned(result.to_text()),
    };
    let media = result.parts.iter().filter_map(|part| match part {
        ToolResultPart::Image(image) => Some(Part::image(image, traits)),
        ToolResultPart::File(file) => Some(Part::document(file)),
        _ => None,
    });
    let (inside, after): (Vec<_>, Vec<_>) =
        media.partition(|part| traits.media_in_results && part.inline_data.is_some());
    let response = FunctionResponse {
        id: &result.call_id,
        name: &result.name,
        response: if result.is_error {
            FunctionOutput::Error(text)
        } else {
            FunctionOutput::Output(text)
        },
        parts: inside,
    };
    parts.push(Part { function_response: Some(response), ..Part::default() });
    parts.extend(after);
}
