//! A set that never changes.

use std::sync::Arc;

use futures::FutureExt;

use super::{RunContext, Toolset, ToolsetFuture};
use crate::Tool;

/// Always the same tools.
#[derive(Clone)]
pub struct StaticTools {
    name: String,
    tools: Vec<Arc<dyn Tool>>,
}

impl StaticTools {
    /// A named group.
    pub fn new(name: impl Into<String>, tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        Self { name: name.into(), tools: tools.into_iter().collect() }
    }

    /// The same group with one tool more.
    #[must_use]
    pub fn with(mut self, tool: impl Tool) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }
}

impl Toolset for StaticTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        std::future::ready(Ok(self.tools.clone())).boxed()
    }
}
