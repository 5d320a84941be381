//! The trait that every chat model implements, with its events and responses.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use provost_core::{Message, Money, ProviderData, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ChatRequest, ModelError, ModelInfo, ResponseAccumulator};

/// Events of one model call. Dropping the stream cancels the call.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A chat model.
///
/// The stream yields deltas and ends after [`ModelEvent::Stop`] or after one error. A stream that ends without either
/// was truncated, and [`ResponseAccumulator::finish`] then fails.
pub trait ChatModel: Send + Sync + 'static {
    /// Returns the properties of the model.
    fn info(&self) -> &ModelInfo;

    /// Starts a model call. The request is sent when the stream is polled.
    fn stream(&self, request: ChatRequest) -> ModelStream;

    /// Returns the cost of a response of this model. `None` if the price or the usage is unknown.
    fn cost(&self, response: &ModelResponse) -> Option<Money> {
        let pricing = self.info().pricing?;
        response.usage_known.then(|| pricing.cost(&response.usage))
    }
}

impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn info(&self) -> &ModelInfo {
        (**self).info()
    }

    fn stream(&self, request: ChatRequest) -> ModelStream {
        (**self).stream(request)
    }

    fn cost(&self, response: &ModelResponse) -> Option<Money> {
        (**self).cost(response)
    }
}

/// Calls the model and collects the stream into the complete response. Returns the first error of the stream, or an
/// error if the stream is truncated.
pub async fn complete<M: ChatModel + ?Sized>(
    model: &M,
    request: ChatRequest,
) -> Result<ModelResponse, ModelError> {
    let mut stream = model.stream(request);
    let mut accumulator = ResponseAccumulator::default();
    while let Some(event) = stream.next().await {
        accumulator.push(&event?)?;
    }
    accumulator.finish()
}

/// One event of the stream of a model call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The provider accepted the request.
    Started {
        /// The provider's id of the response.
        response_id: Option<String>,
        /// The model that responds. It can be a dated version of the requested model.
        model: Option<String>,
    },
    /// Text of the response.
    Text(String),
    /// Readable reasoning of the model.
    Reasoning(String),
    /// Opaque provider data that completes the reasoning block before it. Without such a block it is a block of its
    /// own.
    ReasoningOpaque(ProviderData),
    /// A tool call starts.
    ToolCallStart {
        /// Position among the tool calls of this response.
        index: u32,
        /// The provider's id of the call. If it is empty, the run assigns one.
        id: String,
        /// Name of the tool.
        name: String,
    },
    /// A part of the arguments of a tool call.
    ToolCallArguments {
        /// Position among the tool calls of this response.
        index: u32,
        /// The unparsed part of the JSON text.
        json: String,
    },
    /// Opaque provider data of a tool call.
    ToolCallOpaque {
        /// Position among the tool calls of this response.
        index: u32,
        /// The opaque data.
        opaque: ProviderData,
    },
    /// Usage of the call so far. A later value replaces an earlier one.
    Usage(Usage),
    /// Additional data of the provider, under a name such as `openai.system_fingerprint`.
    Metadata(String, Value),
    /// An attempt failed before a delta was delivered, and another attempt follows.
    Retry {
        /// Number of the retry, starting at 1.
        attempt: u32,
        /// Delay before the retry.
        delay: Duration,
        /// The error of the failed attempt.
        error: ModelError,
    },
    /// The response is complete. Usage may still follow.
    Stop(StopReason),
}

impl ModelEvent {
    /// Returns true if the event is a part of the response. After such an event was delivered, a retry would repeat it.
    pub fn is_delta(&self) -> bool {
        !matches!(
            self,
            Self::Started { .. } | Self::Usage(_) | Self::Metadata(..) | Self::Retry { .. }
        )
    }
}

/// The complete response to a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// The message of the model.
    pub message: Message,
    /// Usage of the call. Zero if `usage_known` is false.
    pub usage: Usage,
    /// True if the provider reported the usage.
    pub usage_known: bool,
    /// Reason why the model stopped.
    pub stop: StopReason,
    /// The provider's id of the response.
    pub response_id: Option<String>,
    /// Additional data of the provider, by name.
    pub metadata: Map<String, Value>,
}

impl ModelResponse {
    /// Creates a response with this text and zero usage, for hooks that respond instead of the model.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            message: Message::assistant(text),
            usage: Usage::default(),
            usage_known: true,
            stop: StopReason::EndTurn,
            response_id: None,
            metadata: Map::new(),
        }
    }
}
