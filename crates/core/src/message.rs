//! Messages and the reasons a model stops.

pub(crate) mod content;
pub(crate) mod tool_definition;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Image, Part, Reasoning, Timestamp, ToolCall, ToolResult};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program's instructions. Never stored in a session.
    System,
    /// A person, or a program in a person's place.
    User,
    /// The model.
    Assistant,
    /// The results of the tool calls of the assistant message before it.
    Tool,
    /// A summary of what was said before it; a wire shows it as a user message.
    Summary,
}

/// Why a model, or a run, stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It reached its output limit.
    MaxTokens,
    /// It wants tools to run.
    ToolUse,
    /// It wrote one of the stop sequences.
    StopSequence,
    /// The provider's filter cut it off.
    ContentFilter,
    /// It declined to answer.
    Refusal,
    /// Somebody asked it to stop.
    Cancelled,
    /// A limit of the run was reached; only a run says this, never a model.
    Limit,
    /// The provider gave a reason that has no name here.
    Unknown,
}

impl StopReason {
    /// The name as it is stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::ToolUse => "tool_use",
            Self::StopSequence => "stop_sequence",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
            Self::Limit => "limit",
            Self::Unknown => "unknown",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When.
    #[serde(default)]
    pub created_at: Timestamp,
    /// True if it was cut off: the text ends where the stream ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

impl Message {
    /// A message of some parts, made now by the caller's clock.
    pub fn new(role: Role, parts: Vec<Part>, created_at: Timestamp) -> Self {
        Self { role, parts, model: None, created_at, interrupted: false }
    }

    /// A user's text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![Part::text(text)], Timestamp::default())
    }

    /// An assistant's text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![Part::text(text)], Timestamp::default())
    }

    /// A summary of earlier messages.
    pub fn summary(text: impl Into<String>) -> Self {
        Self::new(Role::Summary, vec![Part::text(text)], Timestamp::default())
    }

    /// An assistant message that asks for tools.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let parts = calls.into_iter().map(Part::ToolCall).collect();
        Self::new(Role::Assistant, parts, Timestamp::default())
    }

    /// The results of one turn, in call order.
    pub fn results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        let parts = results.into_iter().map(Part::ToolResult).collect();
        Self::new(Role::Tool, parts, Timestamp::default())
    }

    /// The same message at another time.
    #[must_use]
    pub fn at(mut self, created_at: Timestamp) -> Self {
        self.created_at = created_at;
        self
    }

    /// The first text part, or nothing.
    pub fn first_text(&self) -> &str {
        self.parts.iter().find_map(Part::as_text).unwrap_or("")
    }

    /// All text parts together.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(Part::as_text).collect()
    }

    /// All reasoning parts.
    pub fn reasoning(&self) -> impl Iterator<Item = &Reasoning> {
        self.parts.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(reasoning),
            _ => None,
        })
    }

    /// All images.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.parts.iter().filter_map(|part| match part {
            Part::Image(image) => Some(image),
            _ => None,
        })
    }

    /// All tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// All tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// Adds to the first text part, or starts one.
    pub fn append_text(&mut self, more: &str) {
        let first = self.parts.iter_mut().find_map(|part| match part {
            Part::Text { text } => Some(text),
            _ => None,
        });
        match first {
            Some(text) => text.push_str(more),
            None => self.parts.push(Part::text(more)),
        }
    }

    /// True if there is nothing in it that a provider could be sent.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| match part {
            Part::Text { text } => text.is_empty(),
            Part::Reasoning(reasoning) => reasoning.text.is_empty() && reasoning.opaque.is_none(),
            Part::Unknown(_) => true,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests;
