//! The HTTP API of Provost.
//!
//! The route table in `router` lists the path, the handler and the id of every operation. The types of a handler describe its
//! arguments, its access and its response. The `axum` router, the OpenAPI document and the documentation page are generated from
//! this table, so every operation is documented and every documented operation exists.
//!
//! Invariant: only this crate uses `axum`. Handlers use the engine and the types of [`provost_api`].

mod app;
mod auth;
mod config;
mod controllers;
mod convert;
mod docs_page;
mod error;
mod extract;
mod listener;
mod live;
mod local;
mod metrics;
mod middleware;
mod openapi;
mod response;
mod router;
mod sse;
mod tool_service;
mod webhook;

pub use app::App;
pub use config::{AppOptions, Limits};
pub use listener::serve;
pub use local::LocalTransport;
pub use router::router;
pub use tool_service::{CallbackRejection, ToolService};
pub use webhook::{SenderError, WebhookSender, WebhookSigningKey};

/// Returns the OpenAPI document of all operations.
pub fn openapi() -> serde_json::Value {
    openapi::document().clone()
}
