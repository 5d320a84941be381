//! Sets whose tools a person must approve.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;

use super::respec::Respecified;
use super::{RunContext, Toolset, ToolsetFuture};
use crate::{Approval, Tool, ToolSpec};

/// Another set whose every tool needs a person's approval. The originals stay as they are.
pub struct ConfirmedTools {
    inner: Arc<dyn Toolset>,
}

impl ConfirmedTools {
    /// Wraps a set.
    pub fn new(inner: impl Toolset) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Toolset for ConfirmedTools {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            let confirm = |inner: Arc<dyn Tool>| {
                let spec = inner.spec().clone().approval(Approval::Always);
                Respecified::wrap(inner, spec)
            };
            Ok(tools.into_iter().map(confirm).collect())
        }
        .boxed()
    }
}

type Needs = dyn Fn(&RunContext, &ToolSpec, &Value) -> bool + Send + Sync;

/// Another set of which a predicate says, for each call, whether a person must approve it.
///
/// A tool that asks by itself goes on asking: the predicate can only make it stricter. One that panics counts as yes.
pub struct ApprovalTools {
    inner: Arc<dyn Toolset>,
    needs: Arc<Needs>,
}

impl ApprovalTools {
    /// Wraps a set. The predicate sees the turn, the tool and the arguments of the call.
    pub fn new(
        inner: impl Toolset,
        needs: impl Fn(&RunContext, &ToolSpec, &Value) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { inner: Arc::new(inner), needs: Arc::new(needs) }
    }

    fn wrap(&self, cx: &RunContext, inner: Arc<dyn Tool>) -> Arc<dyn Tool> {
        let own = match &inner.spec().approval {
            Approval::Always => return inner,
            Approval::Never => None,
            Approval::When(own) => Some(Arc::clone(own)),
        };
        let (needs, cx, spec) = (Arc::clone(&self.needs), cx.clone(), inner.spec().clone());
        let either = move |arguments: &Value| {
            own.as_ref().is_some_and(|own| own(arguments)) || needs(&cx, &spec, arguments)
        };
        let spec = inner.spec().clone().approval(Approval::when(either));
        Respecified::wrap(inner, spec)
    }
}

impl Toolset for ApprovalTools {
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
