//! The guarded path of tools redacts with a [`Redactor`].

use std::borrow::Cow;

use provost_tool::{Redact, RedactChunks};
use serde_json::Value;

use crate::{RedactStream, Redactor};

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
