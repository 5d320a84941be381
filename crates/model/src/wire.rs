//! Wires: how one vendor's bytes look.
//!
//! A wire is pure: it encodes a request, decodes events and reads errors. It opens no connection, keeps no key and knows
//! no clock; the transport in `http` does that for every wire alike.

pub mod anthropic;
mod failure;
pub mod openai_chat;
mod piece;
mod schema;
#[cfg(test)]
mod testing;

use reqwest::header::{HeaderMap, InvalidHeaderValue};

use crate::{ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo, SseEvent};

/// One vendor's protocol.
pub trait Wire: Send + Sync + 'static {
    /// The path of the endpoint under a base URL such as `https://api.example.com/v1`.
    fn path(&self, base_path: &str) -> &'static str;

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
#[cold]
pub(crate) fn malformed(what: &str, cause: &serde_json::Error) -> ModelError {
    // The cause names a place, never the content: a provider's bytes may hold a prompt.
    let place = format!("line {} column {}", cause.line(), cause.column());
    ModelError::new(
        ModelErrorClass::Malformed,
        format!("the provider sent {what} that cannot be read ({place})"),
    )
}

/// A stream that ended too early.
pub(crate) fn incomplete() -> ModelError {
    ModelError::new(
        ModelErrorClass::Incomplete,
        "the provider's stream ended before the answer was complete",
    )
}
