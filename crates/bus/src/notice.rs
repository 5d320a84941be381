//! Notices: results for external receivers.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Topic of a notice: a run has ended.
pub const RUN_ENDED: &str = "run.ended";
/// Topic of a notice: a delivery has arrived, failed, or needs an operator.
pub const DELIVERY_SETTLED: &str = "delivery.settled";

/// Reports a result to external receivers. The outbox publishes each notice at least once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Key by which a receiver recognizes a repetition.
    pub key: String,
    /// Namespace of the result.
    pub namespace: String,
    /// [`RUN_ENDED`] or [`DELIVERY_SETTLED`].
    pub topic: String,
    /// The result.
    pub body: Value,
}

/// The bus did not accept a notice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PublishError(pub String);
