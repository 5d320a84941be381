//! A toolset that never changes.

use std::sync::Arc;

use futures::FutureExt;

use super::{RunContext, Toolset, ToolsetFuture};
use crate::Tool;

/// A toolset with a fixed list of tools.
#[derive(Clone)]
pub struct StaticToolset {
    name: String,
    tools: Vec<Arc<dyn Tool>>,
}

impl StaticToolset {
    /// Creates a toolset.
    pub fn new(name: impl Into<String>, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self { name: name.into(), tools: tools.into_iter().collect() }
    }

    /// Adds a tool.
    #[must_use]
    pub fn with(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }
}

impl Toolset for StaticToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        std::future::ready(Ok(self.tools.clone())).boxed()
    }
}
