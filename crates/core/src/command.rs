//! Task requests of callers: message, recipient, routing and limits.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::execution_policy::ExecutionPolicyPatch;
use crate::hash::body_hash;
use crate::id::name::SessionName;
use crate::lifecycle::RequestError;
use crate::scheduling::InputMode;
use crate::text::string_enum::string_enum;
use crate::usage::limits::RUN_TIMEOUT_DEFAULT;
use crate::{ContentPart, Money, RunId, TaskId, Timestamp};

mod check;

pub use self::check::check_session_key;

string_enum! {
    /// Sender of an incoming message.
    #[derive(Default)]
    ProvenanceKind, "a kind of provenance" {
        /// A person outside of Provost.
        #[default]
        ExternalUser = "external_user",
        /// Another session. The message is evidence, not an instruction.
        InterSession = "inter_session",
        /// Provost itself.
        InternalSystem = "internal_system",
    }
}

/// Origin of a message. It identifies the sender and grants no rights.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputProvenance {
    /// Kind of sender.
    pub kind: ProvenanceKind,
    /// Program or session that sent the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The sender's id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Channel of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Tool call that sent the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Id that correlates the message with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

impl InputProvenance {
    /// Returns true if two waiting messages may become one turn: both have the same sender and channel.
    pub fn can_merge(&self, other: &Self) -> bool {
        (self.kind, &self.source, &self.channel) == (other.kind, &other.source, &other.channel)
    }
}

/// Incoming route of a message and route of the response.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingContext {
    /// Address of the recipient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Address for the response. `None` uses the sender's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Channel of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Channel for the response. `None` uses the channel of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_channel: Option<String>,
    /// Account that received the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// Account that sends the response. `None` uses the account that received the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_account_id: Option<String>,
    /// Thread of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Group of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// Channel within the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_channel: Option<String>,
    /// Space of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_space: Option<String>,
}

/// Destination of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTarget<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The account that sends the response.
    pub account_id: Option<&'a str>,
    /// The recipient.
    pub to: Option<&'a str>,
    /// The thread.
    pub thread_id: Option<&'a str>,
}

impl RoutingContext {
    /// Returns the destination of the response. `None` if no channel is known.
    pub fn reply_target(&self) -> Option<ReplyTarget<'_>> {
        Some(ReplyTarget {
            channel: self.reply_channel.as_deref().or(self.channel.as_deref())?,
            account_id: self.reply_account_id.as_deref().or(self.account_id.as_deref()),
            to: self.reply_to.as_deref().or(self.to.as_deref()),
            thread_id: self.thread_id.as_deref(),
        })
    }

    /// Returns true if two waiting messages may become one turn: both have the same route and response route.
    pub fn can_merge(&self, other: &Self) -> bool {
        self == other
    }
}

/// A request for a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskRequest {
    /// Content of the message: text, images and documents.
    pub message: Vec<ContentPart>,
    /// Name of the agent. `None` uses the default agent of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Id of the webhook that sent the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<String>,
    /// Session of the task. `None` creates a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionName>,
    /// Key of a routing bucket, which selects its current session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// True to deliver the response along the route.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deliver: bool,
    /// True to accept the request even if the response cannot be delivered. The response is then only stored.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub best_effort_deliver: bool,
    /// Timeout of each run in milliseconds. 0 means no timeout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Restrictions of command execution, in addition to those of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicyPatch>,
    /// Label that separates concurrency limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// Additional instructions for the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_system_prompt: Option<String>,
    /// Origin of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_provenance: Option<InputProvenance>,
    /// Route of the message and of the response.
    pub routing: RoutingContext,
    /// Images and documents that belong to the message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<ContentPart>,
    /// Idempotency key: a repeated request with the same key creates no second task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Run id that the caller chooses. A repeated request with the same id creates no second run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Display name of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Name of the agent or service that spawned the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// Authenticated caller. Over the API the name of the token; the caller cannot set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// User of the task, whose `user:` values the run reads and writes. `None` uses the authenticated caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Handling of the message if the session is busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<InputMode>,
    /// Priority in the queue. One step equals one minute of waiting.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Spending limit of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// Deadline of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// True to create a task even if the session has an open one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_task: bool,
    /// Delay before the start in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Maximum wait for a worker in milliseconds, after the task is due. `None` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl TaskRequest {
    /// Creates a request with a text message.
    pub fn text(text: impl Into<String>) -> Self {
        Self { message: vec![ContentPart::text(text)], ..Self::default() }
    }

    /// Returns the timeout of each run. `None` means no timeout.
    pub fn timeout(&self) -> Option<Duration> {
        match self.timeout_ms {
            None => Some(RUN_TIMEOUT_DEFAULT),
            Some(0) => None,
            Some(timeout_ms) => Some(Duration::from_millis(timeout_ms)),
        }
    }

    /// Returns the delay before the task starts. Zero by default.
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.unwrap_or(0))
    }

    /// Returns the maximum wait for a worker after the task is due. `None` means no limit.
    pub fn queue_timeout(&self) -> Option<Duration> {
        self.queue_timeout_ms.map(Duration::from_millis)
    }

    /// Returns true if the request continues a task of its session: the task has the same agent and is not archived,
    /// and the request is not from a webhook and does not require a new task.
    pub fn is_follow_up_of(&self, task_agent: &str, archived: bool) -> bool {
        let same_agent = self.agent.as_deref().is_none_or(|agent| agent == task_agent);
        same_agent && !archived && !self.new_task && self.hook_id.is_none()
    }

    /// Returns the hash that repeated requests with the same idempotency key must share. It covers every field except
    /// the key and the caller.
    pub fn body_hash(&self) -> Result<String, RequestError> {
        let body = Self { idempotency_key: None, requested_by: None, ..self.clone() };
        body_hash(&body).map_err(|error| {
            RequestError::invalid("command", error.to_string(), "send what JSON can hold")
        })
    }
}

/// Target of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputTarget {
    /// A task: its current run.
    Task(TaskId),
    /// A run, or its task if the run has ended.
    Run(RunId),
}

impl From<TaskId> for InputTarget {
    fn from(task: TaskId) -> Self {
        Self::Task(task)
    }
}

impl From<RunId> for InputTarget {
    fn from(run: RunId) -> Self {
        Self::Run(run)
    }
}

#[cfg(test)]
mod tests;
