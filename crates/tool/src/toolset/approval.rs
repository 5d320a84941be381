//! Toolsets whose tools need approval.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;

use super::respec::ToolWithSpec;
use super::{RunContext, Toolset, ToolsetFuture};
use crate::{RequiresApproval, Tool, ToolSpec};

/// The tools of another toolset. Every call needs approval.
pub struct ApprovalRequiredToolset {
    inner: Arc<dyn Toolset>,
}

impl ApprovalRequiredToolset {
    /// Wraps a toolset.
    pub fn new(inner: impl Toolset) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Toolset for ApprovalRequiredToolset {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            let confirm = |inner: Arc<dyn Tool>| {
                let spec = inner.spec().clone().approval(RequiresApproval::Always);
                ToolWithSpec::wrap(inner, spec)
            };
            Ok(tools.into_iter().map(confirm).collect())
        }
        .boxed()
    }
}

type ApprovalPredicate = dyn Fn(&RunContext, &ToolSpec, &Value) -> bool + Send + Sync;

/// The tools of another toolset. The calls that a predicate selects need approval.
///
/// Tools that already require approval keep this requirement. A predicate that panics requires approval.
pub struct ConditionalApprovalToolset {
    inner: Arc<dyn Toolset>,
    predicate: Arc<ApprovalPredicate>,
}

impl ConditionalApprovalToolset {
    /// Wraps a toolset. The predicate receives the run, the tool and the arguments of the call.
    pub fn new(
        inner: impl Toolset,
        predicate: impl Fn(&RunContext, &ToolSpec, &Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { inner: Arc::new(inner), predicate: Arc::new(predicate) }
    }

    /// Wraps a tool so that the predicate can require approval. Returns a tool that always needs approval unchanged.
    fn wrap(&self, cx: &RunContext, inner: Arc<dyn Tool>) -> Arc<dyn Tool> {
        let own = match &inner.spec().approval {
            RequiresApproval::Always => return inner,
            RequiresApproval::Never => None,
            RequiresApproval::When(own) => Some(Arc::clone(own)),
        };
        let (predicate, cx, spec) = (Arc::clone(&self.predicate), cx.clone(), inner.spec().clone());
        let either = move |arguments: &Value| {
            own.as_ref().is_some_and(|own| own(arguments)) || predicate(&cx, &spec, arguments)
        };
        let spec = inner.spec().clone().approval(RequiresApproval::when(either));
        ToolWithSpec::wrap(inner, spec)
    }
}

impl Toolset for ConditionalApprovalToolset {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            Ok(tools.into_iter().map(|tool| self.wrap(cx, tool)).collect())
        }
        .boxed()
    }
}
