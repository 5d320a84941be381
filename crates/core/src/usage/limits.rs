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

/// How long a worker owns a run without a word from it.
pub const LEASE_TTL: Duration = Duration::from_secs(30);
/// How often a worker renews what it owns.
pub const LEASE_HEARTBEAT: Duration = Duration::from_secs(10);
/// Crashes of one run in a row, without a committed step between them, that stop it.
pub const CRASHES_MAX: u32 = 5;
/// Time a run may take unless its command says otherwise.
pub const RUN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);
/// Tries of a run unless its policy says otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// Tries of a run that a policy may ask for.
pub const ATTEMPTS_MAX: u32 = 20;
/// The first wait before another try.
pub const RETRY_DELAY_DEFAULT: Duration = Duration::from_secs(1);
/// How much longer each further wait is.
pub const RETRY_FACTOR_DEFAULT: u32 = 2;
/// The largest factor a policy may ask for.
pub const RETRY_FACTOR_MAX: u32 = 10;
/// The longest wait that we choose ourselves.
pub const RETRY_CAP: Duration = Duration::from_secs(300);
/// Inputs that wait for one session unless its settings say otherwise.
pub const INPUTS_PENDING_DEFAULT: usize = 20;
/// Inputs that settings may let wait for one session.
pub const INPUTS_PENDING_MAX: usize = 1000;
/// The quiet time after which collected inputs become one turn.
pub const INPUT_DEBOUNCE_DEFAULT: Duration = Duration::from_millis(500);
/// The longest quiet time that settings may ask for.
pub const INPUT_DEBOUNCE_MAX: Duration = Duration::from_secs(60);
/// How long a person has to decide unless the question says otherwise.
pub const APPROVAL_EXPIRY_DEFAULT: Duration = Duration::from_secs(30 * 60);
/// The longest time a decision may be waited for.
pub const APPROVAL_EXPIRY_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a person has to answer an agent's question unless it says otherwise.
pub const QUESTION_EXPIRY_DEFAULT: Duration = Duration::from_secs(900);
/// The first wait before a delivery is sent again.
pub const DELIVERY_DELAY: Duration = Duration::from_secs(15);
/// The longest wait before a delivery is sent again.
pub const DELIVERY_DELAY_MAX: Duration = Duration::from_secs(300);
/// How long a delivery is sent again before it is left to an operator.
pub const DELIVERY_GIVE_UP: Duration = Duration::from_secs(30 * 60);
/// Webhooks of one namespace.
pub const WEBHOOKS_MAX: usize = 100;
/// The first wait before an event is sent to a webhook again.
pub const POST_DELAY: Duration = Duration::from_secs(5);
/// The longest wait before an event is sent to a webhook again.
pub const POST_DELAY_MAX: Duration = Duration::from_secs(3600);
/// How long an event is sent to a webhook again before it is given up.
pub const POST_GIVE_UP: Duration = Duration::from_secs(24 * 3600);
/// Failures to run anything that open the breaker of a class.
pub const CLASS_FAILURES_MAX: usize = 5;
/// Failures to run anything after which a class is shown with a warning.
pub const CLASS_FAILURES_WARN: usize = 3;
/// The time in which those failures count.
pub const CLASS_FAILURE_WINDOW: Duration = Duration::from_secs(600);
/// How long an open breaker waits before it lets one attempt through.
pub const CLASS_PROBE_AFTER: Duration = Duration::from_secs(60);
/// Thousandths of a processor core a sandbox gets unless the policy says otherwise.
pub const CPU_MILLICORES_DEFAULT: u32 = 2000;
/// Thousandths of a processor core a policy may ask for.
pub const CPU_MILLICORES_MAX: u32 = 32_000;
/// Bytes of memory a sandbox gets unless the policy says otherwise.
pub const MEMORY_BYTES_DEFAULT: u64 = 2 * 1024 * 1024 * 1024;
/// Bytes of memory a policy may ask for.
pub const MEMORY_BYTES_MAX: u64 = 128 * 1024 * 1024 * 1024;
/// Graphics processors a policy may ask for.
pub const GPUS_MAX: u32 = 8;
/// Bytes of the text of one command or input.
pub const COMMAND_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one command with everything in it.
pub const COMMAND_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Files one command may carry.
pub const COMMAND_ATTACHMENTS_MAX: usize = 32;
/// Parts of the message of one command.
pub const COMMAND_PARTS_MAX: usize = 64;
/// Bytes of what a command adds to the agent's instructions.
pub const COMMAND_PROMPT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a label, a key or an address in a command.
pub const COMMAND_FIELD_BYTES_MAX: usize = 512;
/// How far a priority may be from the normal 0. One step counts like one minute of waiting.
pub const PRIORITY_MAX: i32 = 1000;
/// Characters of a namespace.
pub const NAMESPACE_CHARS_MAX: usize = 63;
/// Characters of a session's name.
pub const SESSION_CHARS_MAX: usize = 200;

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
