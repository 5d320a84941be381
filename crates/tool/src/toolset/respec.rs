//! A tool under other rules or another name.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use crate::{Permit, Probe, Tool, ToolCx, ToolFuture, ToolSpec};

/// A tool under other rules or another name. What it does stays the same.
pub(super) struct Respecified {
    spec: ToolSpec,
    inner: Arc<dyn Tool>,
}

impl Respecified {
    /// Puts a tool under a specification that was made from its own.
    pub(super) fn wrap(inner: Arc<dyn Tool>, spec: ToolSpec) -> Arc<dyn Tool> {
        Arc::new(Self { spec, inner })
    }
}

impl Tool for Respecified {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        self.inner.call(permit, cx)
    }

    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, Probe> {
        self.inner.probe(key, arguments)
    }
}
