//! What events tell of: hand-offs, members of teams, limits, shortened conversations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Money, Timestamp, Usage};

/// How a conversation went from one agent to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandOff {
    /// The agent that gave it away.
    pub from: String,
    /// The agent that goes on with it.
    pub to: String,
    /// Why, in the words of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A member of a team, as an event tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Teammate {
    /// The team.
    pub team: String,
    /// The member's name.
    pub member: String,
    /// What it was asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A message between members of a team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamMessage {
    /// The message: `msg-1`.
    pub id: String,
    /// Who said it.
    pub from: String,
    /// To whom; `*` for all.
    pub to: String,
    /// What.
    pub content: String,
    /// When.
    pub at: Timestamp,
}

/// What one agent of a run used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentUsed {
    /// The agent, with the agents above it.
    pub agent: String,
    /// Model calls.
    pub turns: u32,
    /// Tokens.
    pub usage: Usage,
    /// Money, where the price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
    /// Model calls whose price is not known.
    #[serde(default, skip_serializing_if = "is_none_unpriced")]
    pub unpriced_calls: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none_unpriced(count: &u32) -> bool {
    *count == 0
}

/// Which limit.
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
    /// Money.
    Cost,
    /// Time.
    Wall,
    /// Agents inside agents.
    Depth,
}

impl LimitKind {
    /// The stable name.
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

/// A limit that was reached, in words a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitReached {
    /// Which one.
    pub limit: LimitKind,
    /// Where it was set, as text: `10`, `$0.50`, `120s`.
    pub allowed: String,
    /// What was used when it was reached.
    pub used: String,
}

/// How a conversation was shortened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compaction {
    /// Which strategy.
    pub strategy: String,
    /// Messages before.
    pub messages_before: usize,
    /// Messages after.
    pub messages_after: usize,
    /// Estimated tokens before.
    pub tokens_before: u64,
    /// Estimated tokens after.
    pub tokens_after: u64,
}
