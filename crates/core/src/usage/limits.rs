//! Named limits and defaults.
//!
//! [`Limits`] are the limits that a user sets for a run. The constants are the defaults and the hard limits of
//! Provost.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Money;

/// Default limit of tool-call rounds in a run.
pub const TURNS_DEFAULT: u32 = 10;
/// Default limit of the nesting depth of agents.
pub const DEPTH_DEFAULT: u32 = 8;
/// Default timeout of one tool call.
pub const TOOL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Maximum number of bytes of one tool result that the model receives. A longer result is truncated and marked.
pub const TOOL_OUTPUT_BYTES_MAX: usize = 50 * 1024;
/// Maximum number of bytes of the image and file parts of one tool result that are stored.
pub const TOOL_BINARY_BYTES_MAX: usize = 20 * 1024 * 1024;
/// Maximum number of bytes of the arguments of one tool call.
pub const TOOL_ARGUMENTS_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of tool calls in one response. A response with more is treated as runaway output.
pub const CALLS_PER_TURN_MAX: usize = 128;
/// Default number of tool calls of one turn that run concurrently.
pub const PARALLEL_TOOLS_DEFAULT: usize = 16;
/// Default number of retries of a call whose arguments the tool rejected, per tool and run.
pub const ARGUMENT_RETRIES_DEFAULT: u32 = 3;
/// Default number of retries of a response that does not match the output type.
pub const OUTPUT_RETRIES_DEFAULT: u32 = 2;
/// Maximum number of bytes of one server-sent event of a provider.
pub const SSE_EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of bytes of one model response.
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of bytes that are read of a provider's error response.
pub const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of messages that wait in a live run for the next step.
pub const RUN_MESSAGES_PENDING_MAX: usize = 64;
/// Maximum number of characters of an agent or tool name.
pub const NAME_CHARS_MAX: usize = 64;

/// Default time after which the lease of a run expires unless its worker renews it.
pub const LEASE_TTL_DEFAULT: Duration = Duration::from_secs(30);
/// Default interval at which a worker renews its leases.
pub const LEASE_HEARTBEAT_DEFAULT: Duration = Duration::from_secs(10);
/// Number of consecutive crashes of a run, without a committed step between them, after which the run is stopped.
pub const CRASHES_MAX: u32 = 5;
/// Default timeout of a run.
pub const RUN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);
/// Default number of attempts of a run.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// Maximum number of attempts that an execution policy may set.
pub const ATTEMPTS_MAX: u32 = 20;
/// Default delay before the first retry.
pub const RETRY_DELAY_DEFAULT: Duration = Duration::from_secs(1);
/// Default factor by which the delay grows with each retry.
pub const RETRY_FACTOR_DEFAULT: u32 = 2;
/// Largest factor that an execution policy may set.
pub const RETRY_FACTOR_MAX: u32 = 10;
/// Upper bound of a computed retry delay.
pub const RETRY_CAP: Duration = Duration::from_secs(300);
/// Default capacity of a session's input queue.
pub const INPUTS_PENDING_DEFAULT: usize = 20;
/// Largest capacity of an input queue that settings may set.
pub const INPUTS_PENDING_MAX: usize = 1000;
/// Default quiet time after which collected inputs become one turn.
pub const INPUT_DEBOUNCE_DEFAULT: Duration = Duration::from_millis(500);
/// Longest quiet time that settings may set.
pub const INPUT_DEBOUNCE_MAX: Duration = Duration::from_secs(60);
/// Default time until an approval request expires.
pub const APPROVAL_EXPIRY_DEFAULT: Duration = Duration::from_secs(30 * 60);
/// Longest time until an approval request expires.
pub const APPROVAL_EXPIRY_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Default time until a question of an agent to a person expires.
pub const USER_QUESTION_EXPIRY_DEFAULT: Duration = Duration::from_secs(900);
/// Delay before the first retry of a delivery.
pub const DELIVERY_RETRY_DELAY: Duration = Duration::from_secs(15);
/// Longest delay between retries of a delivery.
pub const DELIVERY_RETRY_DELAY_MAX: Duration = Duration::from_secs(300);
/// Time after which a delivery is no longer retried and is left to an operator.
pub const DELIVERY_RETRY_WINDOW: Duration = Duration::from_secs(30 * 60);
/// Maximum number of webhooks in a namespace.
pub const WEBHOOKS_MAX: usize = 100;
/// Delay before the first retry of a webhook delivery.
pub const WEBHOOK_RETRY_DELAY: Duration = Duration::from_secs(5);
/// Longest delay between retries of a webhook delivery.
pub const WEBHOOK_RETRY_DELAY_MAX: Duration = Duration::from_secs(3600);
/// Time after which a webhook delivery is no longer retried.
pub const WEBHOOK_RETRY_WINDOW: Duration = Duration::from_secs(24 * 3600);
/// Number of failures that open the circuit breaker of an execution class.
pub const CLASS_FAILURES_MAX: usize = 5;
/// Number of failures at which an execution class is displayed with a warning.
pub const CLASS_FAILURES_WARN: usize = 3;
/// Time window in which those failures count.
pub const CLASS_FAILURE_WINDOW: Duration = Duration::from_secs(600);
/// Time after which an open circuit breaker lets one attempt through.
pub const CLASS_PROBE_AFTER: Duration = Duration::from_secs(60);
/// Default CPU limit of a sandbox, in thousandths of a core.
pub const CPU_MILLICORES_DEFAULT: u32 = 2000;
/// Largest CPU limit that an execution policy may set, in thousandths of a core.
pub const CPU_MILLICORES_MAX: u32 = 32_000;
/// Default memory limit of an execution policy, in bytes. A sandbox outside of a policy has a lower default.
pub const POLICY_MEMORY_BYTES_DEFAULT: u64 = 2 * 1024 * 1024 * 1024;
/// Largest memory limit that an execution policy may set, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 128 * 1024 * 1024 * 1024;
/// Maximum number of GPUs that an execution policy may set.
pub const GPUS_MAX: u32 = 8;
/// Maximum number of bytes of the text of one command or input.
pub const COMMAND_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of bytes of one command in total.
pub const COMMAND_BYTES_MAX: usize = 25 * 1024 * 1024;
/// Maximum number of attachments of one command.
pub const COMMAND_ATTACHMENTS_MAX: usize = 32;
/// Maximum number of parts in the message of one command.
pub const COMMAND_PARTS_MAX: usize = 64;
/// Maximum number of bytes that a command may add to the agent's instructions.
pub const COMMAND_PROMPT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes of a label, key or address in a command.
pub const COMMAND_FIELD_BYTES_MAX: usize = 512;
/// Largest distance of a priority from the default 0. One priority step equals one minute of waiting time.
pub const PRIORITY_MAX: i32 = 1000;
/// Maximum number of characters of a namespace.
pub const NAMESPACE_CHARS_MAX: usize = 63;
/// Maximum number of characters of a session name.
pub const SESSION_CHARS_MAX: usize = 200;

/// Limits of one run. `None` means unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of tool-call rounds. The model is called at most once more than that.
    pub turns: Option<u32>,
    /// Maximum number of tool calls.
    pub tool_calls: Option<u32>,
    /// Maximum number of input tokens.
    pub input_tokens: Option<u64>,
    /// Maximum number of output tokens.
    pub output_tokens: Option<u64>,
    /// Maximum number of input and output tokens together.
    pub total_tokens: Option<u64>,
    /// Maximum cost. With this limit, a model without a known price is rejected instead of counted as free.
    pub cost: Option<Money>,
    /// Maximum wall-clock time since the start. Pauses count; suspensions do not.
    pub wall: Option<Duration>,
    /// Maximum nesting depth of agents.
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
    /// Returns limits without any bound: the run continues until the model stops. Use with care.
    pub fn unlimited() -> Self {
        Self { turns: None, depth: None, ..Self::default() }
    }

    /// Sets the maximum number of tool-call rounds.
    #[must_use]
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Sets the maximum number of tool calls.
    #[must_use]
    pub fn tool_calls(mut self, calls: u32) -> Self {
        self.tool_calls = Some(calls);
        self
    }

    /// Sets the maximum number of input and output tokens together.
    #[must_use]
    pub fn total_tokens(mut self, tokens: u64) -> Self {
        self.total_tokens = Some(tokens);
        self
    }

    /// Sets the maximum cost.
    #[must_use]
    pub fn cost(mut self, cost: Money) -> Self {
        self.cost = Some(cost);
        self
    }

    /// Sets the maximum wall-clock time.
    #[must_use]
    pub fn wall(mut self, wall: Duration) -> Self {
        self.wall = Some(wall);
        self
    }
}
