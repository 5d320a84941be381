//! The run API over HTTP.
//!
//! `router` holds one table in which every operation has its path, its handler and its name. Each handler's types describe what
//! it takes, who may call it and what it returns. The table makes the `axum` router, the OpenAPI document and the documentation
//! page, so nothing is served that is not described and nothing is described that is not served.
//!
//! Invariant: `axum` is used in this crate only. Handlers know the engine and the types of [`provost_api`].

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
mod tool_catalog;
mod webhook;

pub use app::App;
pub use config::{AppOptions, Limits};
pub use listener::serve;
pub use local::LocalTransport;
pub use router::router;
pub use tool_catalog::{ToolHouse, Undelivered};
pub use webhook::{MasterKey, SenderError, WebhookSender};

/// The OpenAPI document of everything that is served.
pub fn openapi() -> serde_json::Value {
    openapi::served().clone()
}
