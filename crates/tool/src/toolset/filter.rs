//! A set of which only some tools are shown.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use super::{RunContext, Toolset, ToolsetFuture};
use crate::{Permit, Probe, Tool, ToolCx, ToolError, ToolFuture, ToolSpec};

type Predicate = dyn Fn(&RunContext, &ToolSpec) -> bool + Send + Sync;

/// The tools of another set that a predicate lets through.
///
/// The predicate is asked each turn, for the offer, and once more before each call, for the run's notes may have changed
/// since: a tool that it hides by then does not run, and the model is told.
pub struct FilteredTools {
    name: String,
    inner: Arc<dyn Toolset>,
    keep: Arc<Predicate>,
}

impl FilteredTools {
    /// Filters a set.
    pub fn new(
        name: impl Into<String>,
        inner: impl Toolset,
        keep: impl Fn(&RunContext, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), inner: Arc::new(inner), keep: Arc::new(keep) }
    }
}

impl Toolset for FilteredTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let mut tools = self.inner.tools(cx).await?;
            tools.retain(|tool| (self.keep)(cx, tool.spec()));
            let guarded = |inner| {
                let keep = Arc::clone(&self.keep);
                Arc::new(Kept { inner, keep, cx: cx.clone() }) as Arc<dyn Tool>
            };
            Ok(tools.into_iter().map(guarded).collect())
        }
        .boxed()
    }
}

/// A tool that was let through, and is only as long as the predicate says so.
struct Kept {
    inner: Arc<dyn Tool>,
    keep: Arc<Predicate>,
    /// The turn of the offer; what it points to is the run's as it is now.
    cx: RunContext,
}

impl Tool for Kept {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        if (self.keep)(&self.cx, self.inner.spec()) {
            return self.inner.call(permit, cx);
        }
        let gone = withdrawn(self.inner.spec());
        std::future::ready(Err(gone)).boxed()
    }

    /// Asking what became of a call does nothing, so the predicate has no say in it.
    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, Probe> {
        self.inner.probe(key, arguments)
    }
}

/// What the model is told about a tool that was offered and has been taken away since.
pub(super) fn withdrawn(spec: &ToolSpec) -> ToolError {
    ToolError::Failed(format!("tool `{}` is not available any more; it did not run", spec.name()))
}
