//! The trait every model implements.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use provost_core::{Message, Money, ProviderData, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ChatRequest, Fold, ModelError, ModelInfo};

/// The events of one model call. Dropping it ends the call.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send>>;

/// A model one can talk to.
///
/// The stream yields deltas and ends after [`ModelEvent::Stop`] or after one error.
/// A stream that ends without either was cut, and [`Fold::finish`] says so.
pub trait ChatModel: Send + Sync + 'static {
    /// What is known about the model.
    fn info(&self) -> &ModelInfo;

    /// Asks the model. Nothing happens before the stream is polled.
    fn stream(&self, request: ChatRequest) -> ModelStream;

    /// What an answer of this model cost; nothing if the price or the usage is not known.
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

/// Asks the model and waits for the whole answer: the stream, folded.
pub async fn complete<M: ChatModel + ?Sized>(
    model: &M,
    request: ChatRequest,
) -> Result<ModelResponse, ModelError> {
    let mut stream = model.stream(request);
    let mut fold = Fold::default();
    while let Some(event) = stream.next().await {
        fold.push(&event?)?;
    }
    fold.finish()
}

/// A piece of a model's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The provider accepted the request.
    Started {
        /// The provider's id of the answer.
        response_id: Option<String>,
        /// The model that really answers.
        model: Option<String>,
    },
    /// Text.
    Text(String),
    /// Readable reasoning.
    Reasoning(String),
    /// The provider's own data that closes the reasoning block before it, or stands alone if there is none.
    ReasoningOpaque(ProviderData),
    /// A tool call begins.
    ToolCallStart {
        /// Position among the calls of this answer.
        index: u32,
        /// The provider's id; may be empty, the run then gives one.
        id: String,
        /// Which tool.
        name: String,
    },
    /// A piece of a tool call's arguments.
    ToolCallArguments {
        /// Position among the calls of this answer.
        index: u32,
        /// The piece, raw.
        json: String,
    },
    /// The provider's own data that belongs to a tool call.
    ToolCallOpaque {
        /// Position among the calls of this answer.
        index: u32,
        /// The data.
        opaque: ProviderData,
    },
    /// What the call used so far; a later one replaces an earlier one.
    Usage(Usage),
    /// Something else the provider said, under a name such as `openai.system_fingerprint`.
    Metadata(String, Value),
    /// A try failed before anything was delivered, and another follows.
    Retry {
        /// 1 for the first retry.
        attempt: u32,
        /// How long it waits first.
        delay: Duration,
        /// Why.
        error: ModelError,
    },
    /// The answer is complete. Usage may still follow.
    Stop(StopReason),
}

impl ModelEvent {
    /// True for a piece of the answer itself. Once one was given out, trying again would repeat it.
    pub fn is_delta(&self) -> bool {
        !matches!(
            self,
            Self::Started { .. } | Self::Usage(_) | Self::Metadata(..) | Self::Retry { .. }
        )
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelResponse {
    /// What the model said.
    pub message: Message,
    /// What it used.
    pub usage: Usage,
    /// Whether the provider said what it used; if not, `usage` is zero and means nothing.
    pub usage_known: bool,
    /// Why it stopped.
    pub stop: StopReason,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// What else the provider said.
    pub metadata: Map<String, Value>,
}

impl ModelResponse {
    /// An answer made by hand, which is known to have used nothing: for hooks that answer in a model's place.
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
