//! What other crates redact with.

use std::borrow::Cow;

use serde_json::Value;

use crate::{RedactStream, Redactor};

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
