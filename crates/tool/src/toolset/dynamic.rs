//! Toolsets that change while the program runs.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use super::filter::unavailable_error;
use super::{RunContext, TOOLS_MAX, Toolset, ToolsetError, ToolsetFuture};
use crate::{Permit, ProbeOutcome, Tool, ToolContext, ToolError, ToolFuture, ToolSpec};

/// A toolset whose tools are added and removed while the program runs. Clones share the tools: give one clone to the
/// agent and keep another to change it.
///
/// Every run sees a change from its next turn on. A removed tool can no longer be called, even if it was already
/// offered; running calls continue. The tools are not stored, so a restarted program must add them again.
#[derive(Clone)]
pub struct MutableToolset {
    name: Arc<str>,
    tools: Tools,
}

type Tools = Arc<Mutex<Vec<Arc<dyn Tool>>>>;

impl MutableToolset {
    /// Creates an empty toolset.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), tools: Tools::default() }
    }

    /// Adds a tool. Returns [`ToolsetError::Duplicate`] if a tool of this name exists, and [`ToolsetError::Full`] if
    /// there are too many tools.
    pub fn add(&self, tool: impl Tool) -> Result<(), ToolsetError> {
        self.add_shared(Arc::new(tool))
    }

    /// Adds a shared tool, like [`add`](Self::add).
    pub fn add_shared(&self, tool: Arc<dyn Tool>) -> Result<(), ToolsetError> {
        let mut tools = self.tools.lock();
        if tools.iter().any(|other| other.spec().name() == tool.spec().name()) {
            let (set, tool) = (self.name.to_string(), tool.spec().name().to_owned());
            return Err(ToolsetError::Duplicate { set, tool });
        }
        if tools.len() >= TOOLS_MAX {
            return Err(ToolsetError::Full { set: self.name.to_string(), tools_max: TOOLS_MAX });
        }
        tools.push(tool);
        Ok(())
    }

    /// Removes the tool of this name. Returns true if it existed.
    pub fn remove(&self, name: &str) -> bool {
        let mut tools = self.tools.lock();
        let before = tools.len();
        tools.retain(|tool| tool.spec().name() != name);
        tools.len() < before
    }

    /// Returns the names of the tools, in the order in which they were added.
    pub fn names(&self) -> Vec<String> {
        self.tools.lock().iter().map(|tool| tool.spec().name().to_owned()).collect()
    }
}

impl Toolset for MutableToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        let listed = |inner: &Arc<dyn Tool>| {
            let (inner, tools) = (Arc::clone(inner), Arc::clone(&self.tools));
            Arc::new(RemovableTool { inner, tools }) as Arc<dyn Tool>
        };
        let tools = self.tools.lock().iter().map(listed).collect();
        std::future::ready(Ok(tools)).boxed()
    }
}

/// A tool that can be called only while its toolset contains it.
struct RemovableTool {
    inner: Arc<dyn Tool>,
    tools: Tools,
}

impl Tool for RemovableTool {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        let listed = self.tools.lock().iter().any(|tool| Arc::ptr_eq(tool, &self.inner));
        if listed {
            return self.inner.call(permit, cx);
        }
        std::future::ready(Err(unavailable_error(self.inner.spec()))).boxed()
    }

    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        self.inner.probe(key, arguments)
    }
}

type ListTools =
    dyn Fn(RunContext) -> BoxFuture<'static, Result<Vec<Arc<dyn Tool>>, ToolError>> + Send + Sync;

/// A toolset that calls a function for the tools of each turn. Use [`toolset_fn`] to create one.
#[derive(Clone)]
pub struct FnToolset {
    name: Arc<str>,
    list: Arc<ListTools>,
}

/// Creates a toolset from an async closure that returns the tools of each turn.
///
/// ```
/// use std::sync::Arc;
/// use provost_tool::{Tool, ToolError, tool_fn, toolset_fn};
///
/// let set = toolset_fn("by_turn", |cx| async move {
///     let name = format!("answer_{}", cx.turn);
///     let tool = tool_fn(name, "Answers", |_cx, ()| async { Ok::<_, ToolError>("yes") })?;
///     Ok(vec![Arc::new(tool) as Arc<dyn Tool>])
/// });
/// ```
pub fn toolset_fn<F, Fut>(name: impl Into<Arc<str>>, list: F) -> FnToolset
where
    F: Fn(RunContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<Arc<dyn Tool>>, ToolError>> + Send + 'static,
{
    FnToolset { name: name.into(), list: Arc::new(move |cx| list(cx).boxed()) }
}

impl Toolset for FnToolset {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        (self.list)(cx.clone())
    }
}
