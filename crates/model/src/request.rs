//! What a model is asked.

use std::sync::Arc;

use provost_core::{Message, ToolDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

/// The result that a model reads for a call whose real result is not known.
pub const MISSING_RESULT: &str =
    "No result: it is not known whether this call ran. Check before you repeat it.";

/// One request to a model. Cheap to clone: the large parts are shared.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// The instructions.
    pub system: Option<Arc<str>>,
    /// The conversation.
    pub messages: Vec<Arc<Message>>,
    /// The tools on offer.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Whether the model must, may or must not call tools.
    pub tool_choice: ToolChoice,
    /// Sampling and other knobs.
    pub settings: Settings,
    /// The JSON Schema the answer must follow, for models that can be held to one.
    pub output: Option<Arc<OutputSchema>>,
    /// When the call must be over.
    pub deadline: Option<Instant>,
}

impl ChatRequest {
    /// A request with just a conversation.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().map(Arc::new).collect(), ..Self::default() }
    }

    /// The newest tool result, for tests that look at what a model was told.
    pub fn last_tool_result(&self) -> Option<&provost_core::ToolResult> {
        self.messages.iter().rev().flat_map(|message| message.tool_results()).next()
    }
}

/// Whether the model calls tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// Not now.
    None,
    /// At least one.
    Required,
    /// This one.
    Tool(String),
}

/// How much a reasoning model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Hardly.
    Minimal,
    /// A little.
    Low,
    /// As usual.
    Medium,
    /// A lot.
    High,
}

/// The knobs of one request. What is `None` is not sent, so the provider's default holds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Most output tokens.
    pub max_tokens: Option<u64>,
    /// Randomness.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// For repeatable answers, where the provider can.
    pub seed: Option<i64>,
    /// How much to think.
    pub effort: Option<Effort>,
    /// False asks for at most one tool call at a time.
    pub parallel_tool_calls: Option<bool>,
    /// Fields of the vendor's own request that have no name here; they win over ours.
    pub extra: Map<String, Value>,
}

/// The shape an answer must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// A name for it, as vendors want one.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The JSON Schema.
    pub schema: Value,
}
