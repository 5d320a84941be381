//! Tables of outgoing data: outbox, deliveries, webhooks.

pub mod delivery;
pub mod outbox;
pub mod webhook;
pub mod webhook_delivery;
