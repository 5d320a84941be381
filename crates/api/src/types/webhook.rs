//! Outgoing webhooks in the Standard Webhooks format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DateTime;

/// A webhook to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWebhook {
    /// URL that receives the events.
    pub url: String,
    /// Kinds of events to send. If empty, the webhook receives all events.
    #[serde(default)]
    pub kinds: Vec<String>,
}

/// A webhook without its signing key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Webhook {
    /// Id of the webhook.
    pub id: String,
    /// URL that receives the events.
    pub url: String,
    /// Kinds of events to send. If empty, the webhook receives all events.
    pub kinds: Vec<String>,
    /// Creation time.
    pub created: DateTime,
    /// Time at which the server disabled the webhook, because its URL answered 410. Absent if it is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<DateTime>,
}

/// A created webhook and its signing key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedWebhook {
    /// The webhook.
    pub webhook: Webhook,
    /// Key of the signatures: `whsec_…`. The server does not show it again.
    pub secret: String,
}

/// One event that a webhook receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookDelivery {
    /// Id of the delivery. Every attempt sends it in the header `webhook-id`.
    pub id: String,
    /// The event as `run:seq`.
    pub event: String,
    /// State of the delivery: `pending`, `sending`, `delivered` or `failed`.
    pub state: String,
    /// Number of attempts.
    pub tries: u64,
    /// Time of the next attempt.
    pub next_at: DateTime,
    /// HTTP status of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<u16>,
    /// Error of the last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Creation time.
    pub created: DateTime,
}
