//! Sessions: conversations that outlive a run.

use provost_core::scheduling::InputQueueOverride;
use provost_core::{Message, MessageId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DateTime;

/// A conversation that outlives a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Id of the session.
    pub id: String,
    /// Key under which a channel or a caller finds the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Agent of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Differences from the agent's input queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<InputQueueOverride>,
    /// Revision of the session. Each change of its messages increases it.
    pub revision: u64,
    /// Run that can write to the session. Absent if no run is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<RunId>,
    /// Creation time.
    pub created: DateTime,
    /// Time of the last change.
    pub updated: DateTime,
}

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSession {
    /// Key under which the session is found again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// True takes the key away from a session that has it; that session keeps its messages. False returns that session.
    pub fresh: bool,
}

/// Filter of the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionQuery {
    /// Lists only sessions of this agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Lists only the session with this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Maximum number of items in the page, from 1 to 500. The default is 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Start of the page: the `next` value of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A message of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMessage {
    /// Position of the message. Positions increase; compaction and removal leave gaps.
    pub entry: u64,
    /// Id of the message.
    pub id: MessageId,
    /// Run that added the message.
    pub run: RunId,
    /// The message.
    pub message: Message,
}
