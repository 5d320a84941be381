//! A tool with a changed specification.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use crate::{Permit, ProbeOutcome, Tool, ToolContext, ToolFuture, ToolSpec};

/// A tool with another specification, for example another name. Calls go to the inner tool.
pub(super) struct ToolWithSpec {
    spec: ToolSpec,
    inner: Arc<dyn Tool>,
}

impl ToolWithSpec {
    /// Wraps a tool with a specification that was derived from its own.
    pub(super) fn wrap(inner: Arc<dyn Tool>, spec: ToolSpec) -> Arc<dyn Tool> {
        Arc::new(Self { spec, inner })
    }
}

impl Tool for ToolWithSpec {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        self.inner.call(permit, cx)
    }

    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        self.inner.probe(key, arguments)
    }
}
