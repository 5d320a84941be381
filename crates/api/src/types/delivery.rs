//! Deliveries of answers to channels.

use provost_core::lifecycle::DeliveryState;
use provost_core::{DeliveryId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::DateTime;

/// One message to a channel. The server sends it until the channel accepts it or the delivery is given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// Id of the delivery.
    pub id: DeliveryId,
    /// Run whose answer is delivered.
    pub run: RunId,
    /// Name of the channel.
    pub channel: String,
    /// Recipient, in the format of the channel.
    pub target: Value,
    /// State of the delivery.
    pub state: DeliveryState,
    /// Generation of the delivery. Each manual retry increases it.
    pub generation: u64,
    /// Number of attempts in this generation.
    pub tries: u64,
    /// Time of the next attempt.
    pub next_at: DateTime,
    /// Time after which the server makes no further attempt.
    pub give_up_at: DateTime,
    /// Receipt that the channel returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Error of the last attempt, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Creation time.
    pub created: DateTime,
    /// Time of the last change.
    pub updated: DateTime,
}

/// Filter of the list of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeliveryQuery {
    /// Lists only deliveries in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// Lists only deliveries of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Maximum number of items in the page, from 1 to 500. The default is 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Start of the page: the `next` value of the previous page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
