//! Bounds, each with a name.
//!
//! [`Limits`] is what a user sets for a run. The constants are what Provost itself never exceeds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Money;

/// Rounds of tool calls a run may take unless it says otherwise.
pub const TURNS_DEFAULT: u32 = 10;
/// Agents inside agents.
pub const DEPTH_DEFAULT: u32 = 8;
/// Time one tool call may take unless the tool says otherwise.
pub const TOOL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Bytes of one tool result that reach the model; the rest is cut with a marker.
pub const TOOL_OUTPUT_BYTES_MAX: usize = 50 * 1024;
/// Bytes of one tool result's image or file parts that are kept at all.
pub const TOOL_BINARY_BYTES_MAX: usize = 20 * 1024 * 1024;
/// Bytes of the arguments of one tool call.
pub const TOOL_ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;
/// Tool calls in one answer of a model; more is a runaway answer.
pub const CALLS_PER_TURN_MAX: usize = 128;
/// Tool calls of one turn that run at once unless the agent says otherwise.
pub const PARALLEL_TOOLS_DEFAULT: usize = 16;
/// Times a model may repeat a call with arguments the tool refuses, per tool and run.
pub const ARGUMENT_RETRIES_DEFAULT: u32 = 3;
/// Times an answer that is not the wanted type is sent back.
pub const OUTPUT_RETRIES_DEFAULT: u32 = 2;
/// Bytes of one server-sent event from a provider.
pub const SSE_EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of a whole model answer.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of a provider's error body that are read.
pub const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// Messages a live run holds for its next safe point.
pub const INBOX_MESSAGES_MAX: usize = 64;
/// Characters of an agent or tool name.
pub const NAME_CHARS_MAX: usize = 64;

/// What one run may use. `None` means that this thing is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Rounds of tool calls. With N the model is called at most N + 1 times.
    pub turns: Option<u32>,
    /// Tool calls in all.
    pub tool_calls: Option<u32>,
    /// Input tokens in all.
    pub input_tokens: Option<u64>,
    /// Output tokens in all.
    pub output_tokens: Option<u64>,
    /// Input and output tokens in all.
    pub total_tokens: Option<u64>,
    /// Money in all. A model without a known price is refused under this limit, never counted as free.
    pub cost: Option<Money>,
    /// Time from the start, pauses included; the time a run was suspended does not count.
    pub wall: Option<Duration>,
    /// Agents inside agents.
    pub depth: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns: Some(TURNS_DEFAULT),
            tool_calls: None,
            input_tokens: None,
            output_tokens: None,
            total_tokens: None,
            cost: None,
            wall: None,
            depth: Some(DEPTH_DEFAULT),
        }
    }
}

impl Limits {
    /// No bound at all: the loop runs until the model stops. Say it only when you mean it.
    pub fn unlimited() -> Self {
        Self { turns: None, depth: None, ..Self::default() }
    }

    /// Sets the rounds of tool calls.
    #[must_use]
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Sets the number of tool calls.
    #[must_use]
    pub fn tool_calls(mut self, calls: u32) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// Sets the total number of tokens.
    #[must_use]
    pub fn total_tokens(mut self, tokens: u64) -> Self {
        self.total_tokens = Some(tokens);
        self
    }

    /// Sets the amount of money.
    #[must_use]
    pub fn cost(mut self, cost: Money) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets the time.
    #[must_use]
    pub fn wall(mut self, wall: Duration) -> Self {
        self.wall = Some(wall);
        self
    }
}
