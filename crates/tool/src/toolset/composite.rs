//! Several sets as one.

use std::sync::Arc;

use futures::FutureExt;

use super::{RunContext, Toolset, ToolsetFuture};

/// Several sets as one, in order. If one of them fails, the whole fails.
pub struct CompositeTools {
    name: String,
    sets: Vec<Arc<dyn Toolset>>,
}

impl CompositeTools {
    /// Joins sets.
    pub fn new(name: impl Into<String>, sets: impl IntoIterator<Item = Arc<dyn Toolset>>) -> Self {
        Self { name: name.into(), sets: sets.into_iter().collect() }
    }
}

impl Toolset for CompositeTools {
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
