//! Runs below a run: agents that an agent uses.
//!
//! A tool asks its run's [`Children`] to start other agents and waits for what comes of them. In memory they are tasks of this
//! process; under an engine they are runs of their own that survive a crash. The tools are the same for both: they
//! name a child by the call that asks for it and its place in that call, so a call that is made again after a crash finds the
//! children it had started.

mod fan_out;
pub(crate) mod local;
mod path;
mod spawner;
pub(crate) mod task_tools;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use provost_core::{AgentUsage, LimitReached, RunId};
use provost_tool::{Tool, ToolCx, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::agent::reference::{AgentRef, DeferredAgent, DeferredAgentError};
pub(crate) use crate::subagent::path::Collaborators;
pub use crate::subagent::path::{AgentPath, AgentPathSegment};
pub(crate) use crate::subagent::spawner::ChildSpawnerHandle;
pub use crate::subagent::tool::Subagent;
pub use fan_out::FanOut;

use crate::error::BuildError;

/// How a child that may outlive its call is told from others: `task-1`.
pub(crate) const TASK_ID_PREFIX: &str = "task-";

/// The text of the request with which a call waits for children.
pub(crate) const WAITING_FOR_CHILDREN: &str = "waits for tasks that it started";

/// Whose hooks see what a child does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookInheritance {
    /// Those of the run above, then the child's own.
    #[default]
    Inherit,
    /// Only the child's own.
    OwnOnly,
    /// None.
    None,
}

/// What is asked of one child.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnRequest {
    /// Where its definition is.
    pub path: AgentPath,
    /// Which of the children of its call it is, from 0.
    pub index: u32,
    /// What it is to do.
    pub task: String,
    /// Rounds of tool calls it may take, in place of its own limit.
    pub max_turns: Option<u32>,
    /// The time it may take.
    pub timeout: Option<Duration>,
    /// How long it lives.
    pub lifetime: ChildLifetime,
}

/// How long a child lives at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildLifetime {
    /// As long as the call that started it.
    #[default]
    Call,
    /// As long as the run that started it; it has a label and can be asked for.
    Run,
    /// As long as it takes.
    Detached,
}

/// Where a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildStatus {
    /// It works, or waits for its turn.
    Running,
    /// It has given its answer.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl ChildStatus {
    /// True if nothing more comes of it.
    pub fn is_finished(self) -> bool {
        self != Self::Running
    }
}

/// A child as the call that started it knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnedChild {
    /// Its run.
    pub run: RunId,
    /// What the model calls it, if it may outlive its call: `task-1`.
    pub task_id: Option<String>,
    /// The agent.
    pub agent: Arc<str>,
}

/// A child as its parent sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildReport {
    /// Its run.
    pub run: RunId,
    /// What the model calls it, if it may outlive its call: `task-1`.
    #[serde(rename = "label")]
    pub task_id: Option<String>,
    /// The agent.
    pub agent: Arc<str>,
    /// Where it stands.
    pub status: ChildStatus,
    /// Its answer, or what it had of one.
    pub text: String,
    /// What went wrong.
    pub error: Option<String>,
    /// The limit it stopped at.
    pub limit: Option<LimitReached>,
    /// What it and those below it used, once it is over; nothing, where the run above has counted it already.
    pub used: Vec<AgentUsage>,
}

impl ChildReport {
    /// The same as the call that started it knows it.
    pub fn started(&self) -> SpawnedChild {
        let Self { run, task_id: label, agent, .. } = self;
        SpawnedChild { run: *run, task_id: label.clone(), agent: Arc::clone(agent) }
    }

    /// What the parent's model is told: the answer and, if it is not whole, why.
    pub fn to_model_text(&self) -> String {
        match &self.limit {
            Some(reached) => format!(
                "[{} stopped at its limit of {} {}; what follows is unfinished]\n{}",
                self.agent,
                reached.allowed,
                reached.limit.as_str(),
                self.text
            ),
            None => self.text.clone(),
        }
    }

    /// What the parent's model is told of a child that gave no answer.
    pub fn failure_text(&self) -> String {
        match (self.status, &self.error) {
            (ChildStatus::Cancelled, None) => format!("{} was stopped", self.agent),
            (ChildStatus::Cancelled, Some(error)) => {
                format!("{} was stopped: {error}", self.agent)
            }
            (_, Some(error)) => format!("{} failed: {error}", self.agent),
            (_, None) => format!("{} gave no answer", self.agent),
        }
    }
}

/// Until when children are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitOptions {
    /// One of them is enough.
    pub any: bool,
    /// At most so long; what has not ended by then goes on.
    pub timeout: Option<Duration>,
}

/// What a call of [`Children`] gives.
pub type ChildFuture<'a, T> = BoxFuture<'a, Result<T, ToolError>>;

/// Starts and ends the children of one run.
///
/// Implementations may end a call that waits with [`ToolError::WaitsForRuns`]: the tool is then started again once the wait
/// is over, and everything it asks for again is what it had before.
pub trait ChildSpawner: Send + Sync + 'static {
    /// Starts children of this call, at most `at_once` of them at work at the same time. One that was started before is not
    /// started again.
    fn start<'a>(
        &'a self,
        cx: &'a ToolCx,
        asks: Vec<SpawnRequest>,
        at_once: Option<usize>,
    ) -> ChildFuture<'a, Vec<SpawnedChild>>;

    /// Waits for children of this run, and gives what came of them, in this order.
    fn wait<'a>(
        &'a self,
        cx: &'a ToolCx,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> ChildFuture<'a, Vec<ChildReport>>;

    /// The children of this run that have a label, in the order they were started.
    fn background_tasks<'a>(&'a self, cx: &'a ToolCx) -> ChildFuture<'a, Vec<ChildReport>>;

    /// Stops a child of this run; gives it as it stands then.
    fn stop<'a>(&'a self, cx: &'a ToolCx, run: RunId) -> ChildFuture<'a, ChildReport>;
}

/// What the tools of this module ask of the run they are called in.
pub(crate) fn host(cx: &ToolCx) -> Result<ChildSpawnerHandle, ToolError> {
    let not_driven = |_none| {
        ToolError::failed("this run cannot start other agents: it was not started by a driver")
    };
    cx.dep::<ChildSpawnerHandle>().map(|host| ChildSpawnerHandle::clone(&host)).map_err(not_driven)
}

/// The arguments of a tool without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NoArgs {}

/// A tool of ours whose specification is known to be good, or why it is not.
pub(crate) fn erase_tool<T: Tool>(
    tool: Result<T, provost_tool::SpecError>,
) -> Result<Arc<dyn Tool>, BuildError> {
    match tool {
        Ok(tool) => Ok(Arc::new(tool)),
        Err(error) => Err(BuildError::Setting(error.to_string())),
    }
}
