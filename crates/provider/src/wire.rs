//! Wires: how one vendor's bytes look.
//!
//! A wire is pure: it encodes a request, decodes events and reads errors. It opens no connection, keeps no key and knows
//! no clock; the transport in `http` does that for every wire alike.

pub mod anthropic;
pub mod bedrock;
mod failure;
mod function_tool;
pub mod gemini;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod piece;
mod schema;
#[cfg(test)]
mod testing;
pub mod transcript;

use provost_core::Timestamp;
use provost_model::{
    CatalogEntry, ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo,
};
use reqwest::Url;
use reqwest::header::{HeaderMap, InvalidHeaderValue};

pub use crate::framing::{FrameError, Frames, Framing, SseEvent};
use transcript::Rules;

/// One vendor's protocol.
pub trait Wire: Send + Sync + 'static {
    /// The path of the endpoint under a base URL such as `https://api.example.com/v1`.
    fn path(&self, base_path: &str) -> &'static str;

    /// The same with whatever depends on the model, and with a query if the vendor wants one. Starts with `/`; what of the
    /// model's name is no part of a path is escaped.
    fn route(&self, base_path: &str, _model: &str) -> String {
        self.path(base_path).to_owned()
    }

    /// How an answer is cut into events.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// What a conversation must look like for this vendor.
    fn rules(&self) -> Rules {
        Rules::default()
    }

    /// Adapts the wire to the properties of a model.
    fn configure(&mut self, _entry: &CatalogEntry) {}

    /// Signs one try, for vendors whose credentials are not sent but prove themselves.
    fn sign(&self, _key: Option<&str>, _request: &mut Unsigned<'_>) -> Result<(), ModelError> {
        Ok(())
    }

    /// Adds the headers that carry the key and the version of the protocol.
    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap)
    -> Result<(), InvalidHeaderValue>;

    /// The body of a streaming request. Refuses what the vendor could only refuse.
    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError>;

    /// A fresh decoder for one answer.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// What an error answer means. The status is missing where the error came inside a stream.
    fn failure(&self, status: Option<u16>, body: &[u8]) -> ModelError {
        failure::read(status, body)
    }
}

/// A request that is about to go out. Its method is always `POST`.
#[derive(Debug)]
pub struct Unsigned<'a> {
    /// Where it goes.
    pub url: &'a Url,
    /// What it says.
    pub body: &'a [u8],
    /// Its headers so far.
    pub headers: &'a mut HeaderMap,
    /// The time of this try.
    pub now: Timestamp,
}

impl Wire for Box<dyn Wire> {
    fn path(&self, base_path: &str) -> &'static str {
        (**self).path(base_path)
    }

    fn route(&self, base_path: &str, model: &str) -> String {
        (**self).route(base_path, model)
    }

    fn framing(&self) -> Framing {
        (**self).framing()
    }

    fn rules(&self) -> Rules {
        (**self).rules()
    }

    fn configure(&mut self, entry: &CatalogEntry) {
        (**self).configure(entry);
    }

    fn sign(&self, key: Option<&str>, request: &mut Unsigned<'_>) -> Result<(), ModelError> {
        (**self).sign(key, request)
    }

    fn headers(
        &self,
        key: Option<&str>,
        headers: &mut HeaderMap,
    ) -> Result<(), InvalidHeaderValue> {
        (**self).headers(key, headers)
    }

    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError> {
        (**self).encode(request, info)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        (**self).decoder()
    }

    fn failure(&self, status: Option<u16>, body: &[u8]) -> ModelError {
        (**self).failure(status, body)
    }
}

/// Turns the events of one answer into [`ModelEvent`]s.
pub trait Decoder: Send {
    /// Takes one event in; says whether the answer is over.
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<Progress, ModelError>;

    /// The bytes ended. An answer that is complete without its last words may still be closed here.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;
}

/// Whether more is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More may follow.
    More,
    /// The vendor said its last word.
    Done,
}

/// An answer that is not the vendor's own protocol.
pub(crate) fn malformed(what: &str, cause: &serde_json::Error) -> ModelError {
    // The cause names a place, never the content: a provider's bytes may hold a prompt.
    let place = format!("line {} column {}", cause.line(), cause.column());
    ModelError::new(
        ModelErrorClass::Malformed,
        format!("the provider sent {what} that cannot be read ({place})"),
    )
}

/// A call of which nobody knows what it calls.
pub(crate) fn nameless() -> ModelError {
    ModelError::new(ModelErrorClass::Malformed, "the provider sent a tool call without a name")
}
