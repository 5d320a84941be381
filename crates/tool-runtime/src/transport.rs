//! HTTP transport: the client, errors, and excerpts of foreign text.

pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod excerpt;
