//! What the fake provider answers: one script, said in any vendor's words.

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

/// Failures that vendors report with a status and a body of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A wrong key.
    Auth,
    /// Too many requests.
    RateLimited,
    /// No money left.
    Quota,
    /// Overloaded.
    Overloaded,
    /// A defect of the server.
    Server,
    /// Too long a prompt.
    ContextLength,
    /// A filter.
    ContentFilter,
    /// No such model.
    UnknownModel,
    /// A wrong request.
    InvalidRequest,
    /// A tool whose schema the vendor refuses.
    ToolSchema,
}

/// How a streamed answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ending {
    /// As the vendor ends it.
    #[default]
    Whole,
    /// The body ends without the vendor's last words.
    Early,
    /// The connection is closed in the middle of the body.
    Cut,
    /// Nothing more comes, and the connection stays open.
    Stall,
}

/// One piece of a scripted answer.
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
    /// Bytes put into the stream as they are.
    Raw(Bytes),
    Failure(Failure),
}

/// What kind of answer it is.
#[derive(Debug, Clone, Default)]
pub(crate) enum Shape {
    #[default]
    Stream,
    Failure(Failure),
    Fixed {
        status: u16,
        content_type: String,
        body: Bytes,
    },
    /// The connection is closed without an answer.
    Reset,
    /// No answer at all, ever.
    Silence,
}

/// One answer of the fake provider.
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
            ending: Ending::Whole,
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
    /// An answer with nothing in it yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// An answer of one piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().say(text)
    }

    /// An answer of one tool call.
    pub fn call(id: impl Into<String>, name: impl Into<String>, arguments: &Value) -> Self {
        Self::new().and_call(id, name, arguments)
    }

    /// A failure with the vendor's own status and body.
    pub fn failure(failure: Failure) -> Self {
        Self { shape: Shape::Failure(failure), ..Self::default() }
    }

    /// A fixed answer that is no stream.
    pub fn fixed(status: u16, content_type: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let shape = Shape::Fixed { status, content_type: content_type.into(), body: body.into() };
        Self { shape, ..Self::default() }
    }

    /// Closes the connection without an answer.
    pub fn reset() -> Self {
        Self { shape: Shape::Reset, ..Self::default() }
    }

    /// Takes the request and never answers.
    pub fn silence() -> Self {
        Self { shape: Shape::Silence, ..Self::default() }
    }

    /// Adds a piece of text.
    #[must_use]
    pub fn say(self, text: impl Into<String>) -> Self {
        self.step(Step::Text(text.into()))
    }

    /// Adds pieces of text, one event for each.
    #[must_use]
    pub fn deltas<T: Into<String>>(mut self, pieces: impl IntoIterator<Item = T>) -> Self {
        let pieces = pieces.into_iter().map(|piece| Step::Text(piece.into()));
        self.steps.extend(pieces);
        self
    }

    /// Adds reasoning; the signature is sent where the vendor has one.
    #[must_use]
    pub fn reasoning(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        self.step(Step::Reasoning { text: text.into(), signature: signature.into() })
    }

    /// Adds hidden reasoning, where the vendor has it.
    #[must_use]
    pub fn redacted(self, data: impl Into<String>) -> Self {
        self.step(Step::Redacted(data.into()))
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

    /// Adds a tool call with these arguments, valid JSON or not.
    #[must_use]
    pub fn raw_call(
        self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        self.step(Step::Call { id: id.into(), name: name.into(), arguments: arguments.into() })
    }

    /// Puts bytes into the stream as they are: malformed events, comments, whatever.
    #[must_use]
    pub fn raw(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Raw(bytes.into()))
    }

    /// Sends nothing but the bytes given by [`raw`](Self::raw), not even the vendor's first and last words.
    #[must_use]
    pub fn only_raw(mut self) -> Self {
        self.only_raw = true;
        self
    }

    /// The pieces of the stream as they are sent.
    pub fn render(&self, wire: WireKind) -> Vec<Bytes> {
        self.frames(wire).to_vec()
    }

    /// Reports a failure inside the stream; nothing follows it.
    #[must_use]
    pub fn fail_midway(self, failure: Failure) -> Self {
        let mut reply = self.step(Step::Failure(failure));
        reply.ending = Ending::Early;
        reply
    }

    /// Says what the answer used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Says why the model stopped, where it is not what the content suggests.
    #[must_use]
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Says why the model stopped in the vendor's own word.
    #[must_use]
    pub fn stop_word(mut self, word: impl Into<String>) -> Self {
        self.stop_name = Some(word.into());
        self
    }

    /// Cuts arguments, and text, into pieces of so many characters.
    #[must_use]
    pub fn fragment(mut self, chars: usize) -> Self {
        self.fragment = chars;
        self
    }

    /// Sets the vendor's id of the answer.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the name of the model that answers.
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

    /// Waits before the answer begins.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits before each piece.
    #[must_use]
    pub fn chunk_delay(mut self, delay: Duration) -> Self {
        self.chunk_delay = delay;
        self
    }

    /// Closes the connection in the middle of the body, after the pieces given so far.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.ending = Ending::Cut;
        self
    }

    /// Ends the body properly, but without the vendor's last words.
    #[must_use]
    pub fn end_early(mut self) -> Self {
        self.ending = Ending::Early;
        self
    }

    /// Sends nothing more after the pieces given so far, and keeps the connection open.
    #[must_use]
    pub fn stall(mut self) -> Self {
        self.ending = Ending::Stall;
        self
    }

    /// Renders the stream now, so that every later use only sends bytes: for measurements.
    #[must_use]
    pub fn prepare(mut self, wire: WireKind) -> Self {
        self.prepared = Some((wire, self.frames(wire)));
        self
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The events of the stream in a vendor's words.
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

    pub(crate) fn has_calls(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Call { .. }))
    }

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

/// The status and the body of a failure in a vendor's words.
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

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
