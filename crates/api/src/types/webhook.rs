//! Outgoing webhooks in the Standard Webhooks format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Time;

/// A webhook to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// Where to post.
    pub url: String,
    /// Which kinds of events; all, if it is empty.
    #[serde(default)]
    pub kinds: Vec<String>,
}

/// A webhook as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Webhook {
    /// The id.
    pub id: String,
    /// Where to post.
    pub url: String,
    /// Which kinds of events; all, if it is empty.
    pub kinds: Vec<String>,
    /// When it was made.
    pub created: Time,
    /// Since when it is told nothing, because its address wanted no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Time>,
}

/// A webhook that was made; its secret is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookCreated {
    /// The webhook.
    pub webhook: Webhook,
    /// The key of the signatures: `whsec_…`.
    pub secret: String,
}

/// One message to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookPost {
    /// The id: the header `webhook-id`, the same for every try.
    pub id: String,
    /// The event: `run:seq`.
    pub event: String,
    /// Where it stands: `pending`, `sending`, `delivered` or `failed`.
    pub state: String,
    /// How often it was tried.
    pub tries: u64,
    /// When it is tried next.
    pub next_at: Time,
    /// The last HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// Why it did not work last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was made.
    pub created: Time,
}
