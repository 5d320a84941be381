//! Conversations.

use provost_core::scheduling::InputQueueOverride;
use provost_core::{Message, MessageId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Time;

/// A conversation as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The id.
    pub id: String,
    /// The name that a channel or caller gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The agent it is with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How its waiting messages are treated, as far as it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<InputQueueOverride>,
    /// Rises with each change of what it consists of.
    pub revision: u64,
    /// The run that writes to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<RunId>,
    /// When it was made.
    pub created: Time,
    /// When it last changed.
    pub updated: Time,
}

/// A session to create.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSession {
    /// The key under which the session is found again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// True if a session that has the key loses it and keeps its messages. False returns that session.
    pub fresh: bool,
}

/// Which sessions to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionList {
    /// With this agent only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// With this key only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionMessage {
    /// Its place: rises, with gaps where something was summarized or taken back.
    pub entry: u64,
    /// Its id.
    pub id: MessageId,
    /// The run that added it.
    pub run: RunId,
    /// The message.
    pub message: Message,
}
