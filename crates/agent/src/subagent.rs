//! Child runs: agents that another agent starts.
//!
//! A tool asks the [`ChildSpawner`] of its run to start other agents and waits for their reports. In memory, children
//! are tasks of this process. An engine runs them as durable runs that survive a crash. The tools are the same for
//! both: they identify a child by the call that requests it and its index in that call, so a call that is repeated
//! after a crash finds its existing children.

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
use provost_tool::{Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::agent::reference::AgentRef;
pub(crate) use crate::agent::reference::missing_agent;
pub(crate) use crate::subagent::path::Collaborators;
pub use crate::subagent::path::{AgentPath, AgentPathSegment};
pub(crate) use crate::subagent::spawner::ChildSpawnerHandle;
pub use crate::subagent::tool::Subagent;
pub use fan_out::FanOut;

use crate::error::BuildError;

/// Prefix of the ids of children that may outlive their call, such as `task-1`.
pub(crate) const TASK_ID_PREFIX: &str = "task-";

/// The text of an approval request that makes a call wait for children.
pub(crate) const WAITING_FOR_CHILDREN: &str = "waits for tasks that it started";

/// The hooks that observe a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookInheritance {
    /// The hooks of the parent run, then the child's own hooks.
    #[default]
    Inherit,
    /// Only the child's own hooks.
    OwnOnly,
    /// No hooks.
    None,
}

/// A request to start one child.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnRequest {
    /// Path of the child's definition.
    pub path: AgentPath,
    /// Index of the child among the children of its call, from 0.
    pub index: u32,
    /// Task of the child.
    pub task: String,
    /// Maximum tool rounds. `None` uses the limit of the child's agent.
    pub max_turns: Option<u32>,
    /// Timeout of the child. `None` means no timeout.
    pub timeout: Option<Duration>,
    /// Lifetime of the child.
    pub lifetime: ChildLifetime,
}

/// The maximum lifetime of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildLifetime {
    /// The child ends with the call that started it.
    #[default]
    Call,
    /// The child ends with the run that started it. It has a task id for the model.
    Run,
    /// The child continues after the run that started it.
    Detached,
}

/// Status of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildStatus {
    /// The child runs or waits for a free slot.
    Running,
    /// The child has responded.
    Completed,
    /// The child failed.
    Failed,
    /// The child was cancelled.
    Cancelled,
}

impl ChildStatus {
    /// Returns true if the child has ended.
    pub fn is_finished(self) -> bool {
        self != Self::Running
    }
}

/// A child, as returned to the call that started it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnedChild {
    /// Run of the child.
    pub run: RunId,
    /// Id for the model, such as `task-1`. `None` if the child ends with its call.
    pub task_id: Option<String>,
    /// Name of the agent.
    pub agent: Arc<str>,
}

/// The status and result of a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildReport {
    /// Run of the child.
    pub run: RunId,
    /// Id for the model, such as `task-1`. `None` if the child ends with its call.
    #[serde(rename = "label")]
    pub task_id: Option<String>,
    /// Name of the agent.
    pub agent: Arc<str>,
    /// Status of the child.
    pub status: ChildStatus,
    /// Response of the child, possibly partial.
    pub text: String,
    /// Error of the child.
    pub error: Option<String>,
    /// The limit that stopped the child.
    pub limit: Option<LimitReached>,
    /// Usage of the child and its descendants after its end. Empty if the parent run has already counted it.
    pub used: Vec<AgentUsage>,
}

impl ChildReport {
    /// Returns the child as it was returned to the call that started it.
    pub fn started(&self) -> SpawnedChild {
        let Self { run, task_id, agent, .. } = self;
        SpawnedChild { run: *run, task_id: task_id.clone(), agent: Arc::clone(agent) }
    }

    /// Returns the text for the parent's model: the response and, if it is partial, the reason.
    pub fn to_model_text(&self) -> String {
        match &self.limit {
            Some(reached) => format!(
                "[{} stopped at its limit of {} {}; the following response is incomplete]\n{}",
                self.agent,
                reached.allowed,
                reached.limit.as_str(),
                self.text
            ),
            None => self.text.clone(),
        }
    }

    /// Returns the text for the parent's model about a child without a response.
    pub fn failure_text(&self) -> String {
        match (self.status, &self.error) {
            (ChildStatus::Cancelled, None) => format!("{} was stopped", self.agent),
            (ChildStatus::Cancelled, Some(error)) => {
                format!("{} was stopped: {error}", self.agent)
            }
            (_, Some(error)) => format!("{} failed: {error}", self.agent),
            (_, None) => format!("{} did not respond", self.agent),
        }
    }
}

/// The condition of a wait for children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitOptions {
    /// True to wait for one child, false to wait for all.
    pub any: bool,
    /// Maximum wait. Children that have not ended continue. `None` waits without a limit.
    pub timeout: Option<Duration>,
}

/// The future of a [`ChildSpawner`] method.
pub type ChildFuture<'a, T> = BoxFuture<'a, Result<T, ToolError>>;

/// Starts, awaits and stops the children of one run.
///
/// An implementation may end a waiting call with [`ToolError::WaitsForRuns`]. The tool is then called again after the
/// wait, and repeated requests return the existing children.
pub trait ChildSpawner: Send + Sync + 'static {
    /// Starts the children of this call, of which at most `max_parallel` run at the same time. Children that the call
    /// has already started are not started again.
    fn start<'a>(
        &'a self,
        cx: &'a ToolContext,
        requests: Vec<SpawnRequest>,
        max_parallel: Option<usize>,
    ) -> ChildFuture<'a, Vec<SpawnedChild>>;

    /// Waits until children of this run have ended as `until` demands, and returns their reports in the same order.
    fn wait<'a>(
        &'a self,
        cx: &'a ToolContext,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> ChildFuture<'a, Vec<ChildReport>>;

    /// Returns the children of this run that have a task id, in the order in which they were started.
    fn background_tasks<'a>(&'a self, cx: &'a ToolContext) -> ChildFuture<'a, Vec<ChildReport>>;

    /// Stops a child of this run and returns its report.
    fn stop<'a>(&'a self, cx: &'a ToolContext, run: RunId) -> ChildFuture<'a, ChildReport>;
}

/// Returns the spawner of the calling run. Returns an error if no driver executes the run.
pub(crate) fn spawner_of(cx: &ToolContext) -> Result<ChildSpawnerHandle, ToolError> {
    let not_driven = |_none| {
        ToolError::failed("this run cannot start other agents, because no driver executes it")
    };
    cx.dep::<ChildSpawnerHandle>().map(|host| ChildSpawnerHandle::clone(&host)).map_err(not_driven)
}

/// The arguments of a tool without parameters.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NoArgs {}

/// Converts a built-in tool to a trait object, and its error to a build error.
pub(crate) fn erase_tool<T: Tool>(
    tool: Result<T, provost_tool::ToolSpecError>,
) -> Result<Arc<dyn Tool>, BuildError> {
    match tool {
        Ok(tool) => Ok(Arc::new(tool)),
        Err(error) => Err(BuildError::Setting(error.to_string())),
    }
}
