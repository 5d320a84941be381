//! The run API over HTTP.
//!
//! `operation` is the heart: one table in which every operation has its method, path, scope, schemas and handler. The table
//! makes the router, the check of tokens, the OpenAPI document and the documentation page, so nothing is served that is not
//! described and nothing is described that is not served.
//!
//! Invariant: handlers know the engine and the words of [`provost_api`], never a row's SQL or a socket.

mod alarm;
mod app;
mod auth;
mod config;
mod controllers;
mod convert;
mod docs_page;
mod error;
mod input;
mod live;
mod local;
mod metrics;
mod middleware;
mod openapi;
mod operation;
mod output;
mod router;
mod serve;
mod sse;
mod tool_catalog;
mod webhook;

pub use app::{App, AppOptions};
pub use config::Limits;
pub use live::LiveEvents;
pub use local::LocalTransport;
pub use router::router;
pub use serve::serve;
pub use tool_catalog::{ToolHouse, Undelivered};
pub use webhook::{MasterKey, SenderError, WebhookSender};

/// The OpenAPI document of everything that is served.
pub fn openapi() -> serde_json::Value {
    openapi::document(&controllers::table())
}
