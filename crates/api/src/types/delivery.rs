//! Answers on their way out to a channel.

use provost_core::lifecycle::DeliveryState;
use provost_core::{DeliveryId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Time;

/// A delivery as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// The id.
    pub id: DeliveryId,
    /// The run whose answer it is.
    pub run: RunId,
    /// The channel it goes over.
    pub channel: String,
    /// Where it goes.
    pub target: Value,
    /// Where it stands.
    pub state: DeliveryState,
    /// Rises when an operator lets it be sent anew.
    pub generation: u64,
    /// How often it was tried.
    pub tries: u64,
    /// When it is tried next.
    pub next_at: Time,
    /// When it is left to an operator.
    pub give_up_at: Time,
    /// What the target answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Why it did not work last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was made.
    pub created: Time,
    /// When it last changed.
    pub updated: Time,
}

/// Which deliveries to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeliveryList {
    /// In this state only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// Of this run only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Items of a page: 1 to 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u64>,
    /// Where the page begins: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
