//! MCP toolsets: the tools of MCP servers as tools of agents.
//!
//! A server is defined once ([`McpServer`]), a pool keeps one connection for each definition ([`McpPool`]), and an agent gets
//! the tools as a toolset ([`McpTools`]). Both generations of the protocol are spoken: the one with a greeting (up to
//! 2025-11-25) and the one without (2026-07-28).
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
//! Invariants: a call that may have happened is never repeated; nothing a server sends can be larger or last longer than a
//! bound with a name; a program does not outlive its pool.

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
pub use oauth::{Authorize, MemoryTokens, OAuth, TokenStore};
pub use pool::{McpPool, McpTools};
pub use server::{Elicitation, Era, McpServer};
pub use trace::TraceContext;
pub use transport::launcher;
