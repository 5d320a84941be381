//! Notices: results for the outside.

use serde_json::Value;

/// Topic of a notice: a run has ended.
pub const RUN_ENDED: &str = "run.ended";
/// Topic of a notice: a delivery has arrived, failed, or needs an operator.
pub const DELIVERY_SETTLED: &str = "delivery.settled";

/// Tells the outside about a result. The outbox publishes each notice at least once.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The key by which a receiver recognises a repetition.
    pub key: String,
    /// The namespace.
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
