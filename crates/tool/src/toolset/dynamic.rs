//! Sets that change while a program runs.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use provost_core::recovery::EffectKey;
use serde_json::Value;

use super::filter::withdrawn;
use super::{RunContext, TOOLS_MAX, Toolset, ToolsetError, ToolsetFuture};
use crate::{Permit, Probe, Tool, ToolCx, ToolError, ToolFuture, ToolSpec};

/// Tools that come and go while the program runs. Clones share them: give one to the agent and keep one to change it.
///
/// A change is seen by every run from its next turn on. A tool that is removed does not run from then on, not even if it had
/// been offered; calls of it that run already go on. A program that starts again adds its tools again.
#[derive(Clone)]
pub struct DynamicTools {
    name: Arc<str>,
    tools: Tools,
}

type Tools = Arc<Mutex<Vec<Arc<dyn Tool>>>>;

impl DynamicTools {
    /// A named group without tools.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), tools: Tools::default() }
    }

    /// Adds a tool. One of the same name that is there already is a [`ToolsetError::Duplicate`].
    pub fn add(&self, tool: impl Tool) -> Result<(), ToolsetError> {
        self.add_shared(Arc::new(tool))
    }

    /// Adds a tool that somebody else has, too.
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

    /// Removes the tool of a name; true if there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut tools = self.tools.lock();
        let before = tools.len();
        tools.retain(|tool| tool.spec().name() != name);
        tools.len() < before
    }

    /// The names of its tools, in the order they were added.
    pub fn names(&self) -> Vec<String> {
        self.tools.lock().iter().map(|tool| tool.spec().name().to_owned()).collect()
    }
}

impl Toolset for DynamicTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, _cx: &'a RunContext) -> ToolsetFuture<'a> {
        let listed = |inner: &Arc<dyn Tool>| {
            let (inner, tools) = (Arc::clone(inner), Arc::clone(&self.tools));
            Arc::new(Listed { inner, tools }) as Arc<dyn Tool>
        };
        let tools = self.tools.lock().iter().map(listed).collect();
        std::future::ready(Ok(tools)).boxed()
    }
}

/// A tool that runs only as long as it is listed.
struct Listed {
    inner: Arc<dyn Tool>,
    tools: Tools,
}

impl Tool for Listed {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        let listed = self.tools.lock().iter().any(|tool| Arc::ptr_eq(tool, &self.inner));
        if listed {
            return self.inner.call(permit, cx);
        }
        std::future::ready(Err(withdrawn(self.inner.spec()))).boxed()
    }

    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, Probe> {
        self.inner.probe(key, arguments)
    }
}

type Make =
    dyn Fn(RunContext) -> BoxFuture<'static, Result<Vec<Arc<dyn Tool>>, ToolError>> + Send + Sync;

/// Tools that a function gives for each turn. Made by [`toolset_fn`].
#[derive(Clone)]
pub struct FnTools {
    name: Arc<str>,
    make: Arc<Make>,
}

/// Makes a set of an async closure that is asked for the tools of each turn.
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
pub fn toolset_fn<F, Fut>(name: impl Into<Arc<str>>, make: F) -> FnTools
where
    F: Fn(RunContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Vec<Arc<dyn Tool>>, ToolError>> + Send + 'static,
{
    FnTools { name: name.into(), make: Arc::new(move |cx| make(cx).boxed()) }
}

impl Toolset for FnTools {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools<'a>(&'a self, cx: &'a RunContext) -> ToolsetFuture<'a> {
        (self.make)(cx.clone())
    }
}
