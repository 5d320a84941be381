//! MCP servers as toolsets.
//!
//! An [`McpServer`] defines a server, an [`McpPool`] holds one connection per definition, and an [`McpToolset`] offers
//! the tools of a server to agents. Both protocol generations are supported: with `initialize` (up to 2025-11-25) and
//! with `server/discover` (2026-07-28).
//!
//! ```
//! use provost_mcp::{McpPool, McpServer};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let pool = McpPool::new();
//! let files = pool.toolset(McpServer::stdio("files", "mcp-server-filesystem").arg("/srv/data"))?;
//! // Agent::builder("clerk", model).toolset(files) ..
//! # drop(files);
//! pool.close().await;
//! # Ok::<_, provost_mcp::Error>(())
//! # }).unwrap();
//! ```
//!
//! Invariants: a call that may have been executed is never repeated; every message and every wait has a named limit; a
//! server process does not outlive its pool.

mod connection;
mod error;
mod limits;
mod oauth;
mod pool;
mod server;
mod tools;
mod trace;
mod transport;

pub use error::Error;
pub use oauth::{Authorizer, InMemoryTokenStore, OAuth, TokenStore};
pub use pool::{McpPool, McpToolset};
pub use server::{ElicitationMode, Handshake, McpServer};
pub use trace::TraceContext;
pub use transport::launcher;
