//! Messages of a conversation, and the reasons why a model stops.

pub(crate) mod content;
pub(crate) mod tool_definition;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ContentPart, Image, Reasoning, Timestamp, ToolCall, ToolResult};

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions of the program. Never stored in a session.
    System,
    /// A person, or a program acting for a person.
    User,
    /// The model.
    Assistant,
    /// The results of the tool calls of the assistant message before it.
    Tool,
    /// A summary of the earlier messages. Providers receive it as a user message.
    Summary,
}

/// Reason why a model or a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The response is complete.
    EndTurn,
    /// The response reached the output limit of the model.
    MaxTokens,
    /// The model requests tool calls.
    ToolUse,
    /// The model wrote one of the stop sequences.
    StopSequence,
    /// The provider's content filter ended the response.
    ContentFilter,
    /// The model refused to answer.
    Refusal,
    /// The caller cancelled the run.
    Cancelled,
    /// The run reached a limit. Models never return this reason.
    Limit,
    /// The provider returned a reason that this version does not know.
    Unknown,
}

impl StopReason {
    /// Returns the text that is stored and sent.
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
    /// Author of the message.
    pub role: Role,
    /// Content, in order.
    pub parts: Vec<ContentPart>,
    /// Name of the model that wrote the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Time of creation; 0 if unknown.
    #[serde(default)]
    pub created_at: Timestamp,
    /// True if the response was interrupted: the text ends where the stream broke off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

impl Message {
    /// Creates a message with a creation time from the caller's clock.
    pub fn new(role: Role, parts: Vec<ContentPart>, created_at: Timestamp) -> Self {
        Self { role, parts, model: None, created_at, interrupted: false }
    }

    /// Creates a user message with one text part and no creation time.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![ContentPart::text(text)], Timestamp::default())
    }

    /// Creates an assistant message with one text part and no creation time.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![ContentPart::text(text)], Timestamp::default())
    }

    /// Creates a message with a summary of earlier messages.
    pub fn summary(text: impl Into<String>) -> Self {
        Self::new(Role::Summary, vec![ContentPart::text(text)], Timestamp::default())
    }

    /// Creates an assistant message that requests tool calls.
    pub fn calls(calls: impl IntoIterator<Item = ToolCall>) -> Self {
        let parts = calls.into_iter().map(ContentPart::ToolCall).collect();
        Self::new(Role::Assistant, parts, Timestamp::default())
    }

    /// Creates a tool message from the results of one turn. The caller passes them in call order.
    pub fn results(results: impl IntoIterator<Item = ToolResult>) -> Self {
        let parts = results.into_iter().map(ContentPart::ToolResult).collect();
        Self::new(Role::Tool, parts, Timestamp::default())
    }

    /// Sets the creation time.
    #[must_use]
    pub fn at(mut self, created_at: Timestamp) -> Self {
        self.created_at = created_at;
        self
    }

    /// Returns the text of the first text part. Empty if there is none.
    pub fn first_text(&self) -> &str {
        self.parts.iter().find_map(ContentPart::as_text).unwrap_or("")
    }

    /// Returns all text parts, joined without a separator.
    pub fn text(&self) -> String {
        self.parts.iter().filter_map(ContentPart::as_text).collect()
    }

    /// Returns the reasoning parts, in order.
    pub fn reasoning(&self) -> impl Iterator<Item = &Reasoning> {
        self.parts.iter().filter_map(|part| match part {
            ContentPart::Reasoning(reasoning) => Some(reasoning),
            _ => None,
        })
    }

    /// Returns the images of the message, in order. Images in tool results are not included.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.parts.iter().filter_map(|part| match part {
            ContentPart::Image(image) => Some(image),
            _ => None,
        })
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match part {
            ContentPart::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool results, in order.
    pub fn tool_results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            ContentPart::ToolResult(result) => Some(result),
            _ => None,
        })
    }

    /// Appends text to the first text part. Adds a text part at the end if there is none.
    pub fn append_text(&mut self, more: &str) {
        let first = self.parts.iter_mut().find_map(|part| match part {
            ContentPart::Text { text } => Some(text),
            _ => None,
        });
        match first {
            Some(text) => text.push_str(more),
            None => self.parts.push(ContentPart::text(more)),
        }
    }

    /// Returns true if the message has no content that can be sent to a provider.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| match part {
            ContentPart::Text { text } => text.is_empty(),
            ContentPart::Reasoning(reasoning) => {
                reasoning.text.is_empty() && reasoning.opaque.is_none()
            }
            ContentPart::Unknown(_) => true,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests;
