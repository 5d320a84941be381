//! Pool of connections to MCP servers, and the toolsets of its servers.

mod direct;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_redact::Redactor;
use provost_tool::{RunContext, ToolError, Toolset, ToolsetFuture};

use crate::connection::ServerConnection;
use crate::connection::monitor::locked;
use crate::connection::redaction::ServerRedaction;
use crate::tools::list;
use crate::{Error, McpServer};

/// Pool of connections to MCP servers. It holds one connection per definition, shared by all runs and opened when first
/// needed. Cheap to clone.
///
/// [`close`](Self::close) closes all connections and waits for it. Server processes are killed when the last clone of
/// the pool and its last toolset are dropped.
#[derive(Clone, Default)]
pub struct McpPool {
    connections: Arc<Mutex<Connections>>,
    redaction: ServerRedaction,
}

/// Connections of a pool, and whether the pool is closed.
#[derive(Default)]
struct Connections {
    all: Vec<Arc<ServerConnection>>,
    closed: bool,
}

impl McpPool {
    /// Creates an empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the secrets of servers (environment, headers and tokens) with a redactor before they are used, and
    /// redacts the error messages of servers. Applies to toolsets that are created afterwards.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redaction = ServerRedaction::new(redactor);
        self
    }

    /// Returns the toolset of a server. Validates the definition and registers its secrets, but does not start the
    /// server. Returns an error if the definition is invalid or the pool is closed.
    pub fn toolset(&self, server: McpServer) -> Result<McpToolset, Error> {
        server.check()?;
        self.redaction.register_secrets(&server)?;
        let mut connections = locked(&self.connections);
        if connections.closed {
            return Err(Error::Closed);
        }
        let connections = &mut connections.all;
        // Removes definitions that are neither used nor connected.
        connections.retain(|connection| {
            Arc::strong_count(connection) > 1
                || connection.is_connected()
                || connection.server == server
        });
        let connection = match connections.iter().find(|connection| connection.server == server) {
            Some(connection) => Arc::clone(connection),
            None => {
                let connection = ServerConnection::new(server, self.redaction.clone());
                connections.push(Arc::clone(&connection));
                connection
            }
        };
        Ok(McpToolset { connection })
    }

    /// Returns the number of open connections.
    pub fn connected(&self) -> usize {
        locked(&self.connections).all.iter().filter(|connection| connection.is_connected()).count()
    }

    /// Closes all connections, and ends all server processes with their children. Later calls of the pool and its
    /// toolsets return [`Error::Closed`].
    pub async fn close(&self) {
        let connections = {
            let mut connections = locked(&self.connections);
            connections.closed = true;
            connections.all.clone()
        };
        futures::future::join_all(connections.iter().map(|connection| connection.close())).await;
    }
}

impl fmt::Debug for McpPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = locked(&self.connections);
        let servers: Vec<&str> =
            connections.all.iter().map(|connection| connection.server.name()).collect();
        f.debug_struct("McpPool").field("servers", &servers).finish()
    }
}

/// Toolset of one MCP server. Cheap to clone.
///
/// Tools are named `<server>_<tool>`. The list is requested when first needed, and again after the server reported a
/// change. If the server cannot be reached, listing the toolset fails, and the run continues without its tools.
#[derive(Clone)]
pub struct McpToolset {
    connection: Arc<ServerConnection>,
}

impl McpToolset {
    /// Connects to the server and returns the number of its tools, for programs that check their servers at startup.
    pub async fn connect(&self) -> Result<usize, Error> {
        list::list_tools(&self.connection).await.map(|tools| tools.len())
    }
}

impl Toolset for McpToolset {
    fn name(&self) -> &str {
        self.connection.server.name()
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        Box::pin(async move { list::list_tools(&self.connection).await.map_err(ToolError::failed) })
    }
}

impl fmt::Debug for McpToolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToolset").field("server", &self.connection.server).finish()
    }
}
