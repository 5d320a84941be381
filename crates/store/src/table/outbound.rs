//! Tables of what leaves the engine: outbox, deliveries, webhooks.

pub mod delivery;
pub mod outbox;
pub mod webhook;
pub mod webhook_delivery;
