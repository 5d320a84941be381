//! The connections of a program, and the toolsets made of them.

mod direct;

use std::fmt;
use std::sync::{Arc, Mutex};

use provost_redact::Redactor;
use provost_tool::{RunContext, ToolError, Toolset, ToolsetFuture};

use crate::connection::Link;
use crate::connection::monitor::locked;
use crate::connection::redaction::Scrub;
use crate::tools::list;
use crate::{Error, McpServer};

/// Connections to MCP servers: one for each definition, shared by all runs, made when it is first needed. Cheap to clone.
///
/// [`close`](Self::close) ends everything and waits for it. When the last clone of the pool and the last toolset made from it
/// are gone, whatever still runs is killed.
#[derive(Clone, Default)]
pub struct McpPool {
    links: Arc<Mutex<Links>>,
    scrub: Scrub,
}

#[derive(Default)]
struct Links {
    all: Vec<Arc<Link>>,
    closed: bool,
}

impl McpPool {
    /// A pool without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Teaches redaction what servers are given from now on (environment, headers, tokens), each time before it is used, and
    /// takes secrets out of what servers say about their failures. For toolsets that are made afterwards.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.scrub = Scrub::new(redactor);
        self
    }

    /// The tools of a server. Nothing is started yet; the definition is checked.
    pub fn toolset(&self, server: McpServer) -> Result<McpTools, Error> {
        server.check()?;
        self.scrub.learn_all(&server)?;
        let mut links = locked(&self.links);
        if links.closed {
            return Err(Error::Closed);
        }
        let links = &mut links.all;
        // A definition that nobody uses any more and that is not connected is not kept.
        links.retain(|link| Arc::strong_count(link) > 1 || link.is_live() || link.server == server);
        let link = match links.iter().find(|link| link.server == server) {
            Some(link) => Arc::clone(link),
            None => {
                let link = Link::new(server, self.scrub.clone());
                links.push(Arc::clone(&link));
                link
            }
        };
        Ok(McpTools { link })
    }

    /// How many servers are connected.
    pub fn connected(&self) -> usize {
        locked(&self.links).all.iter().filter(|link| link.is_live()).count()
    }

    /// Closes every connection and ends every program with all that it has started. The pool and its toolsets fail from now on.
    pub async fn close(&self) {
        let links = {
            let mut links = locked(&self.links);
            links.closed = true;
            links.all.clone()
        };
        futures::future::join_all(links.iter().map(|link| link.close())).await;
    }
}

impl fmt::Debug for McpPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = locked(&self.links);
        let servers: Vec<&str> = links.all.iter().map(|link| link.server.name()).collect();
        f.debug_struct("McpPool").field("servers", &servers).finish()
    }
}

/// The tools of one server, for an agent. Cheap to clone.
///
/// They are named `<server>_<tool>`. The list is asked for when it is first needed and again when the server says that it
/// changed. A server that cannot be reached is an error of the toolset: a run goes on without its tools.
#[derive(Clone)]
pub struct McpTools {
    link: Arc<Link>,
}

impl McpTools {
    /// Connects now and counts the tools: for programs that want to know at their start.
    pub async fn connect(&self) -> Result<usize, Error> {
        list::tools(&self.link).await.map(|tools| tools.len())
    }
}

impl Toolset for McpTools {
    fn name(&self) -> &str {
        self.link.server.name()
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        Box::pin(async move { list::tools(&self.link).await.map_err(ToolError::failed) })
    }
}

impl fmt::Debug for McpTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpTools").field("server", &self.link.server).finish()
    }
}
