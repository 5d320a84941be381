//! Results leave the engine: the outbox, deliveries to channels and webhooks.

pub(crate) mod delivery;
pub(crate) mod outbox;
pub(crate) mod webhook;
