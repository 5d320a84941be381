//! The seam to whoever knows secrets: everything that a tool says passes through here before anybody else sees it.

use std::borrow::Cow;

use provost_core::{Document, Image, ResultPart, Source};
use serde_json::Value;

use crate::{ToolError, ToolOutput};

/// Takes secrets out of texts.
pub trait Redact: Send + Sync + 'static {
    /// The text without secrets; borrowed if there were none.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// Takes secrets out of a stream of bytes, also where one is split over chunks.
    fn stream(&self) -> Box<dyn RedactChunks>;

    /// Takes secrets out of every text of a value, names of fields included. True if there were any.
    fn redact_json(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.redact_string(text),
            Value::Array(items) => {
                items.iter_mut().fold(false, |found, item| self.redact_json(item) | found)
            }
            Value::Object(fields) => {
                let mut found = false;
                for (name, item) in std::mem::take(fields) {
                    let (mut name, mut item) = (name, item);
                    found |= self.redact_string(&mut name);
                    found |= self.redact_json(&mut item);
                    fields.insert(name, item);
                }
                found
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Takes secrets out of a text in place. True if there were any.
    fn redact_string(&self, text: &mut String) -> bool {
        let Cow::Owned(clean) = self.redact(text) else { return false };
        let found = clean != *text;
        *text = clean;
        found
    }
}

/// One stream of bytes that secrets are taken out of.
pub trait RedactChunks: Send {
    /// Takes a chunk and gives what is sure to hold no part of a secret.
    fn push(&mut self, chunk: &[u8]) -> Vec<u8>;

    /// The rest.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Takes secrets out of everything that a result holds.
pub(crate) fn redact_output(redact: &dyn Redact, output: &mut ToolOutput) {
    for part in &mut output.parts {
        match part {
            ResultPart::Text { text } => {
                redact.redact_string(text);
            }
            ResultPart::Image(Image { source, detail }) => redact_source(redact, source, detail),
            ResultPart::File(Document { source, name }) => redact_source(redact, source, name),
            ResultPart::Unknown(value) => {
                redact.redact_json(value);
            }
        }
    }
    if let Some(metadata) = &mut output.metadata {
        redact.redact_json(metadata);
    }
}

/// A file may hold a secret, whether it is a text or not.
fn redact_source(redact: &dyn Redact, source: &mut Source, label: &mut Option<String>) {
    if let Some(label) = label {
        redact.redact_string(label);
    }
    if let Source::Url(url) = source {
        redact.redact_string(url);
        return;
    }
    let Some(bytes) = source.decode() else { return };
    let mut chunks = redact.stream();
    let mut clean = chunks.push(&bytes);
    clean.extend(chunks.finish());
    let Source::Base64 { media_type, .. } = source else { return };
    redact.redact_string(media_type);
    if clean != bytes {
        *source = Source::bytes(std::mem::take(media_type), &clean);
    }
}

/// Takes secrets out of an error.
pub(crate) fn redact_error(redact: &dyn Redact, error: &mut ToolError) {
    match error {
        ToolError::Retry(text) | ToolError::Failed(text) | ToolError::Rejected(text) => {
            redact.redact_string(text);
        }
        ToolError::NeedsApproval { hint, payload } => {
            redact.redact_string(hint);
            if let Some(payload) = payload {
                redact.redact_json(payload);
            }
        }
        ToolError::Fault(fault) => {
            redact.redact_string(&mut fault.message);
            let details = std::mem::take(&mut fault.details).into_iter();
            let clean = |mut text: String| {
                redact.redact_string(&mut text);
                text
            };
            fault.details = details.map(|(key, value)| (clean(key), clean(value))).collect();
        }
        ToolError::Fatal(error) => {
            redact.redact_string(&mut error.message);
        }
    }
}
