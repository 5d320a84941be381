//! What a caller hands in: the message, for whom, where from, where to, and within which bounds.

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
    /// Who speaks in a message that came in.
    #[derive(Default)]
    ProvenanceKind, "a kind of provenance" {
        /// A person outside.
        #[default]
        ExternalUser = "external_user",
        /// Another session: evidence, not instruction.
        InterSession = "inter_session",
        /// Provost itself.
        InternalSystem = "internal_system",
    }
}

/// Where a message came from. It says who spoke; it grants nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputProvenance {
    /// Who speaks.
    pub kind: ProvenanceKind,
    /// The program or session that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The sender's own id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The channel it came over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The tool call that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What ties it to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

impl InputProvenance {
    /// May two waiting messages become one turn? Only if the same one speaks over the same channel.
    pub fn can_merge(&self, other: &Self) -> bool {
        (self.kind, &self.source, &self.channel) == (other.kind, &other.source, &other.channel)
    }
}

/// Where a message came in and where its answer goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingContext {
    /// Who it was addressed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Who is answered, if not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The channel it came over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The channel of the answer, if not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_channel: Option<String>,
    /// The account it came in at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The account that answers, if not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_account_id: Option<String>,
    /// The thread it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The group it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<String>,
    /// The channel inside the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_channel: Option<String>,
    /// The space the group belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_space: Option<String>,
}

/// Where an answer goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyTarget<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The account that answers.
    pub account_id: Option<&'a str>,
    /// Who is answered.
    pub to: Option<&'a str>,
    /// In which thread.
    pub thread_id: Option<&'a str>,
}

impl RoutingContext {
    /// Where the answer goes, or `None` if no channel is known.
    pub fn reply_target(&self) -> Option<ReplyTarget<'_>> {
        Some(ReplyTarget {
            channel: self.reply_channel.as_deref().or(self.channel.as_deref())?,
            account_id: self.reply_account_id.as_deref().or(self.account_id.as_deref()),
            to: self.reply_to.as_deref().or(self.to.as_deref()),
            thread_id: self.thread_id.as_deref(),
        })
    }

    /// May two waiting messages become one turn? Only if they came the same way and are answered the same way.
    pub fn can_merge(&self, other: &Self) -> bool {
        self == other
    }
}

/// A piece of work that is handed in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskRequest {
    /// What is said: text, pictures, documents.
    pub message: Vec<ContentPart>,
    /// Which agent; the namespace's own if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The hook that sent it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_id: Option<String>,
    /// Which conversation; a new one if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionName>,
    /// The routing bucket whose present conversation is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// True if the answer is sent out by the routing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deliver: bool,
    /// True if it is accepted also where nobody knows how to send the answer out; the answer is then only kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub best_effort_deliver: bool,
    /// Milliseconds a run may take in all; zero is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How commands may run, as far as it is tighter than what the agent may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicyPatch>,
    /// A label that splits or joins budgets of concurrency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// What is added to the agent's instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_system_prompt: Option<String>,
    /// Where the message came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_provenance: Option<InputProvenance>,
    /// Where it came in and where the answer goes.
    pub routing: RoutingContext,
    /// Pictures and documents that come with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<ContentPart>,
    /// Makes a repeat of this command harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The id of the run that answers, chosen by the caller; it makes a repeat harmless, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Who spawned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<String>,
    /// Who hands it in, as far as that was proven: over the API the name of the token, never a word of the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_by: Option<String>,
    /// For whom it is: whose `user:` values the run sees and sets. The one who hands it in, if nobody is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What to do if the session is busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<InputMode>,
    /// Who goes first: one step counts like one minute of waiting.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Money the task may spend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Money>,
    /// When the task must be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// True if it is never a follow-up of what the session already has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_task: bool,
    /// Milliseconds to wait before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Milliseconds it may wait for a worker once it is due; without it, as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl TaskRequest {
    /// A command that says some text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { message: vec![ContentPart::text(text)], ..Self::default() }
    }

    /// How long a run of it may take; `None` is without a limit.
    pub fn timeout(&self) -> Option<Duration> {
        match self.timeout_ms {
            None => Some(RUN_TIMEOUT_DEFAULT),
            Some(0) => None,
            Some(timeout_ms) => Some(Duration::from_millis(timeout_ms)),
        }
    }

    /// How long to wait before it begins.
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.unwrap_or(0))
    }

    /// How long it may wait for a worker once it is due; `None` is as long as it takes.
    pub fn queue_timeout(&self) -> Option<Duration> {
        self.queue_timeout_ms.map(Duration::from_millis)
    }

    /// Is it a follow-up of a task of its session? Only of one of the same agent that was not put away, and never if it came
    /// from a hook or asks for a task of its own.
    pub fn is_follow_up_of(&self, task_agent: &str, archived: bool) -> bool {
        let same_agent = self.agent.as_deref().is_none_or(|agent| agent == task_agent);
        same_agent && !archived && !self.new_task && self.hook_id.is_none()
    }

    /// What a repeat under the same idempotency key must have in common with this: everything but the key and who sends it.
    pub fn body_hash(&self) -> Result<String, RequestError> {
        let body = Self { idempotency_key: None, requested_by: None, ..self.clone() };
        body_hash(&body).map_err(|error| {
            RequestError::invalid("command", error.to_string(), "send what JSON can hold")
        })
    }
}

/// The task or run that a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputTarget {
    /// A task, whatever its run is at the moment.
    Task(TaskId),
    /// A run; if it has ended, its task.
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
