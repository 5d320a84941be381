//! Replies of the fake provider: one script, rendered in the format of any vendor.

mod anthropic;
mod bedrock;
mod gemini;
mod kind;
mod ollama;
mod openai;
mod responses;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use provost_core::{StopReason, Usage};
use serde_json::Value;

pub use self::kind::WireKind;

/// Failures that the fake provider reports with the status and body of each vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Invalid key.
    Auth,
    /// Too many requests.
    RateLimited,
    /// Exhausted quota.
    Quota,
    /// Overloaded.
    Overloaded,
    /// Server error.
    Server,
    /// Prompt too long.
    ContextLength,
    /// Content filter.
    ContentFilter,
    /// Unknown model.
    UnknownModel,
    /// Invalid request.
    InvalidRequest,
    /// Tool schema that the vendor rejects.
    ToolSchema,
}

/// End of a streamed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ending {
    /// Complete, as the vendor ends it.
    #[default]
    Complete,
    /// The body ends without the vendor's final frame.
    WithoutFinalFrame,
    /// The connection is closed in the middle of the body.
    Dropped,
    /// The connection stays open without further data.
    Hanging,
}

/// One part of a scripted response.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Text(String),
    Reasoning {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    /// Bytes that are sent unchanged.
    Raw(Bytes),
    Failure(Failure),
}

/// Content of a response.
#[derive(Debug, Clone, Default)]
pub(crate) enum Shape {
    #[default]
    Stream,
    Failure(Failure),
    Raw {
        status: u16,
        content_type: String,
        body: Bytes,
    },
    /// The connection is closed without a response.
    Reset,
    /// No response is sent.
    NoResponse,
}

/// One scripted response of the fake provider.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) shape: Shape,
    pub(crate) steps: Vec<Step>,
    pub(crate) usage: Option<Usage>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) stop_name: Option<String>,
    pub(crate) ending: Ending,
    pub(crate) fragment: usize,
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) delay: Duration,
    pub(crate) chunk_delay: Duration,
    only_raw: bool,
    prepared: Option<(WireKind, Arc<[Bytes]>)>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            shape: Shape::Stream,
            steps: Vec::new(),
            usage: None,
            stop: None,
            stop_name: None,
            ending: Ending::Complete,
            fragment: 0,
            id: "resp_1".to_owned(),
            model: "fake-1".to_owned(),
            headers: Vec::new(),
            delay: Duration::ZERO,
            chunk_delay: Duration::ZERO,
            only_raw: false,
            prepared: None,
        }
    }
}

impl Reply {
    /// Creates a reply with no content.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a reply with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().say(text)
    }

    /// Creates a reply with one tool call.
    pub fn call(id: impl Into<String>, name: impl Into<String>, arguments: &Value) -> Self {
        Self::new().and_call(id, name, arguments)
    }

    /// Creates a failure with the vendor's status and body.
    pub fn failure(failure: Failure) -> Self {
        Self { shape: Shape::Failure(failure), ..Self::default() }
    }

    /// Creates a reply with this status, content type and body instead of a stream.
    pub fn raw_response(
        status: u16,
        content_type: impl Into<String>,
        body: impl Into<Bytes>,
    ) -> Self {
        let shape = Shape::Raw { status, content_type: content_type.into(), body: body.into() };
        Self { shape, ..Self::default() }
    }

    /// Creates a reply that closes the connection without a response.
    pub fn reset() -> Self {
        Self { shape: Shape::Reset, ..Self::default() }
    }

    /// Creates a reply that keeps the connection open and never responds.
    pub fn never_respond() -> Self {
        Self { shape: Shape::NoResponse, ..Self::default() }
    }

    /// Adds a text.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.with_step(Step::Text(text.into()))
    }

    /// Adds texts, each as a separate event of the stream.
    #[must_use]
    pub fn deltas<T: Into<String>>(mut self, pieces: impl IntoIterator<Item = T>) -> Self {
        let pieces = pieces.into_iter().map(|piece| Step::Text(piece.into()));
        self.steps.extend(pieces);
        self
    }

    /// Adds reasoning. The signature is sent if the vendor has one.
    #[must_use]
    pub fn reasoning(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        self.with_step(Step::Reasoning { text: text.into(), signature: signature.into() })
    }

    /// Adds redacted reasoning, if the vendor has it.
    #[must_use]
    pub fn redacted(self, data: impl Into<String>) -> Self {
        self.with_step(Step::Redacted(data.into()))
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: &Value,
    ) -> Self {
        self.raw_call(id, name, arguments.to_string())
    }

    /// Adds a tool call with these arguments, which may be invalid JSON.
    #[must_use]
    pub fn raw_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.with_step(Step::Call { id: id.into(), name: name.into(), arguments: arguments.into() })
    }

    /// Adds bytes to the stream unchanged, such as malformed events or comments.
    #[must_use]
    pub fn raw(self, bytes: impl Into<Bytes>) -> Self {
        self.with_step(Step::Raw(bytes.into()))
    }

    /// Sends only the bytes given by [`raw`](Self::raw), without the vendor's first and final frames.
    #[must_use]
    pub fn only_raw(mut self) -> Self {
        self.only_raw = true;
        self
    }

    /// Returns the frames of the stream in the format of a wire.
    pub fn render(&self, wire: WireKind) -> Vec<Bytes> {
        self.frames(wire).to_vec()
    }

    /// Adds a failure inside the stream. No frame follows it.
    #[must_use]
    pub fn fail_midway(self, failure: Failure) -> Self {
        let mut reply = self.with_step(Step::Failure(failure));
        reply.ending = Ending::WithoutFinalFrame;
        reply
    }

    /// Sets the token usage.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the stop reason. By default, it follows from the content.
    #[must_use]
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets the vendor's name of the stop reason.
    #[must_use]
    pub fn stop_reason_name(mut self, word: impl Into<String>) -> Self {
        self.stop_name = Some(word.into());
        self
    }

    /// Splits arguments and texts into pieces of `chars` characters.
    #[must_use]
    pub fn fragment(mut self, chars: usize) -> Self {
        self.fragment = chars;
        self
    }

    /// Sets the vendor's id of the response.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the name of the model.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = model.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the delay before the response.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the delay before each frame.
    #[must_use]
    pub fn chunk_delay(mut self, delay: Duration) -> Self {
        self.chunk_delay = delay;
        self
    }

    /// Closes the connection in the middle of the body, after the frames added so far.
    #[must_use]
    pub fn drop_connection(mut self) -> Self {
        self.ending = Ending::Dropped;
        self
    }

    /// Ends the body without the vendor's final frame.
    #[must_use]
    pub fn omit_final_frame(mut self) -> Self {
        self.ending = Ending::WithoutFinalFrame;
        self
    }

    /// Keeps the connection open after the last frame and sends nothing more.
    #[must_use]
    pub fn hang_midway(mut self) -> Self {
        self.ending = Ending::Hanging;
        self
    }

    /// Renders the stream now, so that later uses only send bytes. Use it in measurements.
    #[must_use]
    pub fn prepare(mut self, wire: WireKind) -> Self {
        self.prepared = Some((wire, self.frames(wire)));
        self
    }

    /// Adds a part to the stream.
    fn with_step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Returns the events of the stream in the format of a vendor.
    pub(crate) fn frames(&self, wire: WireKind) -> Arc<[Bytes]> {
        match &self.prepared {
            Some((prepared, frames)) if *prepared == wire => Arc::clone(frames),
            _ if self.only_raw => {
                let raw = self.steps.iter().filter_map(|step| match step {
                    Step::Raw(bytes) => Some(bytes.clone()),
                    _ => None,
                });
                raw.collect()
            }
            _ => match wire {
                WireKind::OpenAiChat => openai::frames(self).into(),
                WireKind::OpenAiResponses => responses::frames(self).into(),
                WireKind::Anthropic => anthropic::frames(self).into(),
                WireKind::Gemini => gemini::frames(self).into(),
                WireKind::Ollama => ollama::frames(self).into(),
                WireKind::Bedrock => bedrock::frames(self).into(),
            },
        }
    }

    /// Returns true if the reply has a tool call.
    pub(crate) fn has_calls(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Call { .. }))
    }

    /// Splits a text into pieces of the configured size. Returns one piece if no size is set.
    pub(crate) fn pieces<'a>(&self, text: &'a str) -> Vec<&'a str> {
        if self.fragment == 0 {
            return vec![text];
        }
        let mut ends: Vec<usize> =
            text.char_indices().map(|(at, _)| at).step_by(self.fragment).collect();
        ends.push(text.len());
        ends.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
    }
}

/// Returns the status and body of a failure in the format of a vendor.
pub(crate) fn failure(failure: Failure, wire: WireKind) -> (u16, String) {
    match wire {
        WireKind::OpenAiChat => openai::failure(failure),
        WireKind::OpenAiResponses => responses::failure(failure),
        WireKind::Gemini => gemini::failure(failure),
        WireKind::Ollama => ollama::failure(failure),
        WireKind::Bedrock => bedrock::failure(failure),
        WireKind::Anthropic => anthropic::failure(failure),
    }
}

/// Returns the text as a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    Value::from(text).to_string()
}
