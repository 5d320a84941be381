//! Pieces that more than one wire is made of.

use std::borrow::Cow;
use std::fmt;

use provost_core::{Document, MediaSource, Role, ToolResult};
use provost_model::{
    ChatRequest, ModelError, ModelErrorClass, ModelInfo, NativeOutput, ToolChoice, is_dated,
};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// What stands before a summary that is shown to a model.
pub(crate) const SUMMARY_HEADING: &str = "Summary of the conversation so far:";
/// What a model reads in place of an image that it cannot see.
pub(crate) const IMAGE_NOTE: &str = "[an image was here, but this model cannot see images]";

/// Text that stays borrowed from the event unless it holds escapes.
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The arguments of a call in a form that every vendor takes back.
#[derive(Debug)]
pub(crate) enum Arguments<'a> {
    /// A JSON object, exactly as the model wrote it.
    Object(&'a RawValue),
    /// Nothing was written.
    Empty,
    /// Something that is not a JSON object.
    Broken(&'a str),
}

#[derive(Serialize)]
struct BrokenArguments<'a> {
    _raw: &'a str,
}

impl<'a> Arguments<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Self::Empty;
        }
        match serde_json::from_str::<&RawValue>(trimmed) {
            Ok(raw) if trimmed.starts_with('{') => Self::Object(raw),
            _ => Self::Broken(text),
        }
    }

    /// The same as text, for vendors that want a string.
    pub(crate) fn to_text(&self) -> Cow<'a, str> {
        match self {
            Self::Object(raw) => Cow::Borrowed(raw.get()),
            Self::Empty => Cow::Borrowed("{}"),
            Self::Broken(text) => {
                let wrapped = serde_json::to_string(&BrokenArguments { _raw: text });
                Cow::Owned(wrapped.unwrap_or_else(|_| "{}".to_owned()))
            }
        }
    }
}

impl Serialize for Arguments<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(raw) => raw.serialize(serializer),
            Self::Empty => serializer.collect_map(std::iter::empty::<((), ())>()),
            Self::Broken(text) => BrokenArguments { _raw: text }.serialize(serializer),
        }
    }
}

/// A source as a URL, written without building it in memory first.
pub(crate) struct UrlOf<'a>(pub(crate) &'a MediaSource);

impl fmt::Display for UrlOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            MediaSource::Url(url) => f.write_str(url),
            MediaSource::Base64 { media_type, data } => {
                f.write_str("data:")?;
                f.write_str(media_type)?;
                f.write_str(";base64,")?;
                f.write_str(data)
            }
        }
    }
}

impl Serialize for UrlOf<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            MediaSource::Url(url) => serializer.serialize_str(url),
            MediaSource::Base64 { .. } => serializer.collect_str(self),
        }
    }
}

/// How a document can reach a model.
pub(crate) enum Readable<'a> {
    /// A PDF, which vendors take as it is.
    Pdf(&'a str),
    /// Text, shown as text.
    Text(String),
    /// A place the vendor may fetch it from.
    Url(&'a str),
    /// Nothing that a model can read; this is said instead.
    Note(String),
}

pub(crate) fn readable(document: &Document) -> Readable<'_> {
    let name = document.name.as_deref().unwrap_or("document");
    match &document.source {
        MediaSource::Url(url) => Readable::Url(url),
        MediaSource::Base64 { media_type, data } if media_type == "application/pdf" => {
            Readable::Pdf(data)
        }
        MediaSource::Base64 { media_type, .. } => {
            let is_text = media_type.starts_with("text/")
                || matches!(
                    media_type.as_str(),
                    "application/json"
                        | "application/xml"
                        | "application/yaml"
                        | "application/toml"
                );
            let text = document
                .source
                .decode()
                .filter(|_| is_text)
                .and_then(|bytes| String::from_utf8(bytes).ok());
            match text {
                Some(text) => Readable::Text(text),
                None => Readable::Note(format!(
                    "[the file {name} ({media_type}) cannot be shown to the model]"
                )),
            }
        }
    }
}

/// True if a result holds anything but text.
pub(crate) fn has_media(result: &ToolResult) -> bool {
    use provost_core::ToolResultPart;
    result
        .parts
        .iter()
        .any(|part| matches!(part, ToolResultPart::Image(_) | ToolResultPart::File(_)))
}

/// Refuses a choice that no vendor could follow, before anything is sent.
pub(crate) fn check_tool_choice(request: &ChatRequest) -> Result<(), ModelError> {
    let ToolChoice::Tool(name) = &request.tool_choice else {
        return Ok(());
    };
    let problem = if name.trim().is_empty() {
        "the tool choice names no tool: give the tool's name".to_owned()
    } else if request.tools.iter().all(|tool| &tool.name != name) {
        format!(
            "the tool choice `{name}` is not among the tools of the request: add it or choose another"
        )
    } else {
        return Ok(());
    };
    Err(ModelError::new(ModelErrorClass::InvalidRequest, problem))
}

/// True if the model may be held to the schema in this request.
pub(crate) fn allows_native_output(request: &ChatRequest, info: &ModelInfo) -> bool {
    match info.native_output {
        NativeOutput::None => false,
        NativeOutput::WithoutTools => request.tools.is_empty(),
        NativeOutput::WithTools => true,
    }
}

/// Thinking belongs to the model that thought. Gateways put a path before the name, vendors a date behind it, some after `@`.
pub(crate) fn is_same_model(written_by: &str, asked: &str) -> bool {
    let tail = |name: &str| name.rsplit('/').next().unwrap_or(name).replace('@', "-");
    let (written_by, asked) = (tail(written_by), tail(asked));
    written_by == asked || is_dated(&written_by, &asked) || is_dated(&asked, &written_by)
}

/// True if the role is one that vendors call `user`.
pub(crate) fn is_user_side(role: Role) -> bool {
    matches!(role, Role::User | Role::Tool | Role::Summary)
}

/// Writes a body and lets the caller's own fields win over ours; a null takes ours away.
pub(crate) fn to_body(
    body: &impl Serialize,
    extra: &Map<String, Value>,
) -> Result<Vec<u8>, ModelError> {
    let bytes = serde_json::to_vec(body).map_err(unwritable)?;
    if extra.is_empty() {
        return Ok(bytes);
    }
    let mut fields: Map<String, Value> = serde_json::from_slice(&bytes).map_err(unwritable)?;
    for (name, value) in extra {
        if value.is_null() {
            fields.shift_remove(name);
        } else {
            fields.insert(name.clone(), value.clone());
        }
    }
    serde_json::to_vec(&fields).map_err(unwritable)
}

fn unwritable(cause: serde_json::Error) -> ModelError {
    ModelError::new(
        ModelErrorClass::InvalidRequest,
        "the request cannot be written as JSON: check the settings and the schemas",
    )
    .caused_by(cause)
}
