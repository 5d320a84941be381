//! Wires: the protocols of model vendors.
//!
//! A wire is pure: it encodes a request, decodes events and parses errors. It opens no connection, stores no key and
//! reads no clock. The transport in `http` does this for all wires.

pub mod anthropic;
mod arguments;
pub mod bedrock;
mod error;
mod function_tool;
pub mod gemini;
mod media;
pub mod normalize;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod request;
mod schema;
#[cfg(test)]
mod testing;

use provost_core::Timestamp;
use provost_model::{
    CatalogEntry, ChatRequest, ModelError, ModelErrorClass, ModelEvent, ModelInfo,
};
use reqwest::Url;
use reqwest::header::{HeaderMap, InvalidHeaderValue};

pub use crate::framing::{FrameError, FrameParser, Framing, SseEvent};
use normalize::MessageRules;

/// Protocol of one vendor.
pub trait WireFormat: Send + Sync + 'static {
    /// Returns the path of the endpoint, to append to a base URL such as `https://api.example.com/v1`.
    fn path(&self, base_path: &str) -> &'static str;

    /// Returns the path with the parts that depend on the model, and with a query if the vendor needs one. It starts
    /// with `/`, and the name of the model is escaped.
    fn url_path(&self, base_path: &str, _model: &str) -> String {
        self.path(base_path).to_owned()
    }

    /// Returns the format that separates the events of a response.
    fn framing(&self) -> Framing {
        Framing::Sse
    }

    /// Returns the vendor's rules for tool names, call ids and reasoning.
    fn message_rules(&self) -> MessageRules {
        MessageRules::default()
    }

    /// Sets the options of the wire that depend on the properties of a model. Does nothing by default.
    fn configure(&mut self, _entry: &CatalogEntry) {}

    /// Signs one attempt, for vendors whose credentials sign requests instead of being sent. Does nothing by default.
    fn sign(
        &self,
        _key: Option<&str>,
        _request: &mut UnsignedRequest<'_>,
    ) -> Result<(), ModelError> {
        Ok(())
    }

    /// Adds the headers with the key and the protocol version.
    fn headers(&self, key: Option<&str>, headers: &mut HeaderMap)
    -> Result<(), InvalidHeaderValue>;

    /// Encodes a streaming request as the body of an HTTP request. Returns an error if the vendor would reject the
    /// request.
    fn encode(&self, request: &ChatRequest, info: &ModelInfo) -> Result<Vec<u8>, ModelError>;

    /// Creates a decoder for one response.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// Parses an error response. `status` is `None` if the error came inside a stream.
    fn parse_error(&self, status: Option<u16>, body: &[u8]) -> ModelError {
        error::parse(status, body)
    }
}

/// A request before it is signed. Its method is always `POST`.
#[derive(Debug)]
pub struct UnsignedRequest<'a> {
    /// URL of the request.
    pub url: &'a Url,
    /// Body of the request.
    pub body: &'a [u8],
    /// Headers of the request so far.
    pub headers: &'a mut HeaderMap,
    /// Time of this attempt.
    pub now: Timestamp,
}

impl WireFormat for Box<dyn WireFormat> {
    fn path(&self, base_path: &str) -> &'static str {
        (**self).path(base_path)
    }

    fn url_path(&self, base_path: &str, model: &str) -> String {
        (**self).url_path(base_path, model)
    }

    fn framing(&self) -> Framing {
        (**self).framing()
    }

    fn message_rules(&self) -> MessageRules {
        (**self).message_rules()
    }

    fn configure(&mut self, entry: &CatalogEntry) {
        (**self).configure(entry);
    }

    fn sign(&self, key: Option<&str>, request: &mut UnsignedRequest<'_>) -> Result<(), ModelError> {
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

    fn parse_error(&self, status: Option<u16>, body: &[u8]) -> ModelError {
        (**self).parse_error(status, body)
    }
}

/// Decodes the events of one response into [`ModelEvent`]s.
pub trait Decoder: Send {
    /// Decodes one event, and appends the resulting events to `out`. Returns [`DecodeStatus::Done`] when the response
    /// is complete, and an error if the event is malformed or reports an error of the vendor.
    fn push(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<DecodeStatus, ModelError>;

    /// Ends the input, and appends the remaining events to `out`. Returns an error if the response is incomplete.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError>;
}

/// Whether a decoder needs more events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeStatus {
    /// More events may follow.
    More,
    /// The vendor marked the end of the response.
    Done,
}

/// Creates the error of data that does not follow the vendor's protocol. `what` names the data.
pub(crate) fn malformed(what: &str, cause: &serde_json::Error) -> ModelError {
    // The message contains a position and never the content, because the provider's bytes may contain a prompt.
    let position = format!("line {} column {}", cause.line(), cause.column());
    ModelError::new(
        ModelErrorClass::Malformed,
        format!("the provider sent {what} that cannot be read ({position})"),
    )
}

/// Creates the error of a tool call without a name.
pub(crate) fn missing_tool_name() -> ModelError {
    ModelError::new(ModelErrorClass::Malformed, "the provider sent a tool call without a name")
}
