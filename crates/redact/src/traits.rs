//! The redaction interface of other crates.

use std::borrow::Cow;

use serde_json::Value;

use crate::{RedactStream, Redactor};

/// Removes secrets from texts.
pub trait Redact: Send + Sync + 'static {
    /// Returns the text without secrets. Borrows the text if it contains none.
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str>;

    /// Opens a stream that removes secrets, also those that are split over chunks.
    fn stream(&self) -> Box<dyn RedactChunks>;

    /// Removes secrets from every string of a value, including member names. Returns true if there were any.
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

    /// Removes secrets from a string in place. Returns true if there were any.
    fn redact_string(&self, text: &mut String) -> bool {
        let Cow::Owned(clean) = self.redact(text) else { return false };
        let found = clean != *text;
        *text = clean;
        found
    }
}

/// A stream that removes secrets.
pub trait RedactChunks: Send {
    /// Processes a chunk. Returns the output that is final.
    fn push(&mut self, chunk: &[u8]) -> Vec<u8>;

    /// Returns the remaining output.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

impl Redact for Redactor {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Redactor::redact(self, text)
    }

    fn stream(&self) -> Box<dyn RedactChunks> {
        Box::new(Redactor::stream(self))
    }

    fn redact_json(&self, value: &mut Value) -> bool {
        Redactor::redact_json(self, value)
    }
}

impl RedactChunks for RedactStream {
    fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        RedactStream::push(self, chunk)
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        RedactStream::finish(*self)
    }
}
