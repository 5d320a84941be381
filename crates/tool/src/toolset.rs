//! Groups of tools that may change from turn to turn.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::RunId;

use crate::{Approval, Deps, Permit, State, Tool, ToolCx, ToolError, ToolFuture, ToolSpec};

/// What a toolset knows about the turn it is asked for.
#[derive(Debug, Clone)]
pub struct ToolsetCx {
    /// The run.
    pub run_id: RunId,
    /// The agent, with the agents above it.
    pub agent: Arc<str>,
    /// The model call the tools are for: 1 for the first.
    pub turn: u32,
    /// What the program gave.
    pub deps: Deps,
    /// The run's own notes.
    pub state: State,
}

/// The tools a toolset offers now.
pub type ToolsetFuture<'a> = BoxFuture<'a, Result<Vec<Arc<dyn Tool>>, ToolError>>;

/// A group of tools, asked once per turn: what the model is offered is what can run.
pub trait Toolset: Send + Sync + 'static {
    /// For messages to people.
    fn name(&self) -> &str;

    /// The tools for this turn.
    fn tools<'a>(&'a self, cx: &'a ToolsetCx) -> ToolsetFuture<'a>;
}

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
}

impl Toolset for StaticTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, _cx: &'a ToolsetCx) -> ToolsetFuture<'a> {
        std::future::ready(Ok(self.tools.clone())).boxed()
    }
}

type Predicate = dyn Fn(&ToolsetCx, &ToolSpec) -> bool + Send + Sync;

/// The tools of another set that a predicate lets through.
pub struct FilteredTools {
    name: String,
    inner: Arc<dyn Toolset>,
    keep: Box<Predicate>,
}

impl FilteredTools {
    /// Filters a set; the predicate is asked again each turn.
    pub fn new(
        name: impl Into<String>,
        inner: impl Toolset,
        keep: impl Fn(&ToolsetCx, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), inner: Arc::new(inner), keep: Box::new(keep) }
    }
}

impl Toolset for FilteredTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, cx: &'a ToolsetCx) -> ToolsetFuture<'a> {
        async move {
            let mut tools = self.inner.tools(cx).await?;
            tools.retain(|tool| (self.keep)(cx, tool.spec()));
            Ok(tools)
        }
        .boxed()
    }
}

/// Several sets as one, in order.
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

    fn tools<'a>(&'a self, cx: &'a ToolsetCx) -> ToolsetFuture<'a> {
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

    fn tools<'a>(&'a self, cx: &'a ToolsetCx) -> ToolsetFuture<'a> {
        async move {
            let tools = self.inner.tools(cx).await?;
            let confirm = |inner: Arc<dyn Tool>| {
                let spec = inner.spec().clone().approval(Approval::Always);
                Arc::new(Respecified { spec, inner }) as Arc<dyn Tool>
            };
            Ok(tools.into_iter().map(confirm).collect())
        }
        .boxed()
    }
}

/// A tool under other rules.
struct Respecified {
    spec: ToolSpec,
    inner: Arc<dyn Tool>,
}

impl Tool for Respecified {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        self.inner.call(permit, cx)
    }
}
