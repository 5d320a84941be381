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
mod docs;
mod hub;
mod input;
mod limit;
mod local;
mod metrics;
mod openapi;
mod operation;
mod output;
mod problem;
mod router;
mod routes;
mod serve;
mod stream;
mod tools;
mod webhook;
mod wire;

pub use app::{App, AppOptions};
pub use limit::Limits;
pub use local::LocalTransport;
pub use router::router;
pub use serve::serve;
pub use tools::{ToolHouse, Undelivered};
pub use webhook::{MasterKey, SenderError, WebhookSender};

/// The OpenAPI document of everything that is served.
pub fn openapi() -> serde_json::Value {
    openapi::document(&routes::table())
}
