//! Payloads of live events: handoffs, team members, limits and compaction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Money, Timestamp, Usage};

/// Handoff of a conversation from one agent to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentHandoff {
    /// Agent that handed the conversation off.
    pub from: String,
    /// Agent that continues the conversation.
    pub to: String,
    /// Reason given by the first agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Member of a team, in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMember {
    /// Name of the team.
    pub team: String,
    /// Name of the member.
    pub member: String,
    /// Task of the member.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// Result of the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Error of the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Message between members of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMessage {
    /// Id of the message, such as `msg-1`.
    pub id: String,
    /// Name of the sender.
    pub from: String,
    /// Name of the recipient; `*` for all members.
    pub to: String,
    /// Text of the message.
    pub content: String,
    /// Time of the message.
    pub at: Timestamp,
}

/// Usage of one agent of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentUsage {
    /// Path of the agent, with its ancestors.
    pub agent: String,
    /// Number of model calls.
    pub turns: u32,
    /// Tokens.
    pub usage: Usage,
    /// Cost of the calls with a known price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Number of model calls without a known price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced_calls: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Kind of a run limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Rounds of tool calls.
    Turns,
    /// Tool calls.
    ToolCalls,
    /// Input tokens.
    InputTokens,
    /// Output tokens.
    OutputTokens,
    /// All tokens.
    TotalTokens,
    /// Cost of model calls.
    Cost,
    /// Wall-clock time.
    Wall,
    /// Nesting depth of agents.
    Depth,
}

impl LimitKind {
    /// Returns the name of the kind, as stored and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::ToolCalls => "tool_calls",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::TotalTokens => "total_tokens",
            Self::Cost => "cost",
            Self::Wall => "wall",
            Self::Depth => "depth",
        }
    }
}

/// Limit that a run reached, with values formatted for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReached {
    /// Kind of the limit.
    pub limit: LimitKind,
    /// Configured limit: `10`, `$0.50`, `120s`.
    pub allowed: String,
    /// Usage when the limit was reached.
    pub used: String,
}

/// Compaction of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compaction {
    /// Name of the strategy.
    pub strategy: String,
    /// Number of messages before.
    pub messages_before: usize,
    /// Number of messages after.
    pub messages_after: usize,
    /// Estimated tokens before.
    pub tokens_before: u64,
    /// Estimated tokens after.
    pub tokens_after: u64,
}
