//! Several toolsets as one.

use std::sync::Arc;

use futures::FutureExt;

use super::{RunContext, Toolset, ToolsetFuture};

/// The tools of several toolsets, in order. If one toolset cannot be listed, the combined toolset fails.
pub struct CombinedToolset {
    name: String,
    sets: Vec<Arc<dyn Toolset>>,
}

impl CombinedToolset {
    /// Combines toolsets.
    pub fn new(name: impl Into<String>, sets: impl IntoIterator<Item = Arc<dyn Toolset>>) -> Self {
        Self { name: name.into(), sets: sets.into_iter().collect() }
    }
}

impl Toolset for CombinedToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let mut all = Vec::new();
            for set in &self.sets {
                all.extend(set.tools(cx).await?);
            }
            Ok(all)
        }
        .boxed()
    }
}
