//! A toolset that offers a selection of another one.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use super::{RunContext, Toolset, ToolsetFuture};
use crate::{Permit, ProbeOutcome, Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

type Predicate = dyn Fn(&RunContext, &ToolSpec) -> bool + Send + Sync;

/// The tools of another toolset that a predicate accepts.
///
/// The predicate is evaluated each turn for the offer, and again before each call, because the state of the run may
/// have changed. A call of a tool that the predicate no longer accepts returns an error.
pub struct FilteredToolset {
    name: String,
    inner: Arc<dyn Toolset>,
    predicate: Arc<Predicate>,
}

impl FilteredToolset {
    /// Creates a filtered toolset.
    pub fn new(
        name: impl Into<String>,
        inner: impl Toolset,
        predicate: impl Fn(&RunContext, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), inner: Arc::new(inner), predicate: Arc::new(predicate) }
    }
}

impl Toolset for FilteredToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let mut tools = self.inner.tools(cx).await?;
            tools.retain(|tool| (self.predicate)(cx, tool.spec()));
            let wrap = |inner| {
                let predicate = Arc::clone(&self.predicate);
                Arc::new(FilteredTool { inner, predicate, cx: cx.clone() }) as Arc<dyn Tool>
            };
            Ok(tools.into_iter().map(wrap).collect())
        }
        .boxed()
    }
}

/// A tool that can be called only while the predicate accepts it.
struct FilteredTool {
    inner: Arc<dyn Tool>,
    predicate: Arc<Predicate>,
    /// Context of the turn that offered the tool. Its state is shared with the run, and therefore current.
    cx: RunContext,
}

impl Tool for FilteredTool {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        if (self.predicate)(&self.cx, self.inner.spec()) {
            return self.inner.call(permit, cx);
        }
        let error = unavailable_error(self.inner.spec());
        std::future::ready(Err(error)).boxed()
    }

    /// Probes the inner tool. Probing has no effect, so the predicate does not apply.
    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        self.inner.probe(key, arguments)
    }
}

/// Creates the error of a call to a tool that was offered and is no longer available.
pub(super) fn unavailable_error(spec: &ToolSpec) -> ToolError {
    ToolError::Failed(format!("tool `{}` is no longer available; it did not run", spec.name()))
}
