//! Requests to models.

use std::sync::Arc;

use provost_core::{Message, ToolDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

/// Text of the tool result for a call whose real result is unknown.
pub const MISSING_RESULT: &str =
    "No result: it is not known whether this call ran. Check before you repeat it.";

/// A request to a model. Clones are cheap because they share the large parts.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// The instructions.
    pub system: Option<Arc<str>>,
    /// The messages of the conversation.
    pub messages: Vec<Arc<Message>>,
    /// The available tools.
    pub tools: Vec<Arc<ToolDefinition>>,
    /// Rule for tool calls.
    pub tool_choice: ToolChoice,
    /// Sampling and other settings.
    pub settings: ModelSettings,
    /// JSON Schema of the response, for models that support it.
    pub output: Option<Arc<OutputSchema>>,
    /// Time at which the call is cancelled. `None` means no deadline.
    pub deadline: Option<Instant>,
}

impl ChatRequest {
    /// Creates a request with these messages and default settings.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().map(Arc::new).collect(), ..Self::default() }
    }

    /// Returns the newest tool result in the messages. `None` if there is none.
    pub fn last_tool_result(&self) -> Option<&provost_core::ToolResult> {
        self.messages.iter().rev().flat_map(|message| message.tool_results()).next()
    }
}

/// Whether the response may or must contain tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the tool with this name.
    Tool(String),
}

/// Amount of reasoning before a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningEffort {
    /// As little reasoning as possible.
    Minimal,
    /// Little reasoning.
    Low,
    /// A moderate amount of reasoning.
    Medium,
    /// Much reasoning.
    High,
}

/// Settings of a request. A setting that is `None` is not sent, so the default of the provider applies.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Largest number of output tokens.
    pub max_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling probability.
    pub top_p: Option<f64>,
    /// Texts that end the response.
    pub stop: Vec<String>,
    /// Seed for reproducible responses, where the provider supports it.
    pub seed: Option<i64>,
    /// Amount of reasoning.
    pub effort: Option<ReasoningEffort>,
    /// False limits the response to one tool call.
    pub parallel_tool_calls: Option<bool>,
    /// Additional fields of the vendor's request. They replace fields with the same name.
    pub extra: Map<String, Value>,
}

/// JSON Schema that the response must match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// Name of the schema. Vendors require one.
    pub name: String,
    /// Description of the schema for the model.
    pub description: Option<String>,
    /// The JSON Schema.
    pub schema: Value,
}
