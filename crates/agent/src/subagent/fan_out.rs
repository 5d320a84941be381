//! A tool that runs another agent on many tasks in parallel.

mod report;

use std::sync::Arc;

use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, Tool, ToolContext, ToolError, ToolOutput, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AgentPath, AgentPathSegment, ChildLifetime, HookInheritance, SpawnRequest, WaitOptions,
};
use crate::agent::reference::AgentRef;
use crate::error::BuildError;
use crate::subagent::spawner_of;
use crate::subagent::tool::CHILD_CALL_TIMEOUT;

/// Default maximum of tasks per call.
const ITEMS_DEFAULT: usize = 100;
/// Default number of tasks that run in parallel.
const CONCURRENCY_DEFAULT: usize = 16;

/// A tool that runs another agent on many tasks in parallel.
#[derive(Debug, Clone)]
pub struct FanOut {
    pub(crate) agent: AgentRef,
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) concurrency: Option<usize>,
    pub(crate) max_items: usize,
    pub(crate) hooks: HookInheritance,
}

impl FanOut {
    /// Creates a tool with this name. The description tells the model when to use it.
    pub fn new(
        agent: impl Into<AgentRef>,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self {
            agent: agent.into(),
            name: name.into(),
            description: description.into(),
            concurrency: Some(CONCURRENCY_DEFAULT),
            max_items: ITEMS_DEFAULT,
            hooks: HookInheritance::Inherit,
        }
    }

    /// Sets how many tasks run in parallel. 0 runs all tasks at the same time.
    #[must_use]
    pub fn concurrency(mut self, tasks: usize) -> Self {
        self.concurrency = (tasks > 0).then_some(tasks);
        self
    }

    /// Sets the maximum number of tasks per call.
    #[must_use]
    pub fn max_items(mut self, items: usize) -> Self {
        self.max_items = items;
        self
    }

    /// Sets which hooks observe the runs of the agent.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    /// Creates the tool. Returns an error if it allows no task or its name is invalid.
    pub(crate) fn tool(&self) -> Result<Arc<dyn Tool>, BuildError> {
        if self.max_items == 0 {
            let problem =
                format!("fan-out `{}` allows no tasks: set max_items to 1 or more", self.name);
            return Err(BuildError::Setting(problem));
        }
        super::erase_tool(self.build())
    }

    /// Creates the tool without checking the number of tasks.
    fn build(&self) -> Result<FnTool, ToolSpecError> {
        let fan_out = Arc::new(self.clone());
        let run = move |cx: ToolContext, args: FanOutArgs| {
            let fan_out = Arc::clone(&fan_out);
            async move { fan_out.run(&cx, args.tasks).await }
        };
        let tool = tool_fn(&self.name, &self.description, run)?;
        Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent).timeout(CHILD_CALL_TIMEOUT)))
    }

    /// Runs the agent on all tasks, and returns the report. Returns an error for the model if a task is empty or there
    /// are too many.
    async fn run(&self, cx: &ToolContext, tasks: Vec<String>) -> Result<ToolOutput, ToolError> {
        if tasks.is_empty() {
            return Err(ToolError::retry("`tasks` is empty: pass at least one task"));
        }
        if tasks.len() > self.max_items {
            let (count, max) = (tasks.len(), self.max_items);
            let text =
                format!("`tasks` has {count} entries, at most {max} are allowed: split them");
            return Err(ToolError::Retry(text));
        }
        if let Some(empty) = tasks.iter().position(|task| task.trim().is_empty()) {
            return Err(ToolError::Retry(format!("task {} is empty", empty + 1)));
        }
        let host = spawner_of(cx)?;
        let (tool, agent) = (self.name.clone(), self.agent.name().to_string());
        let path: AgentPath = [AgentPathSegment::FanOut { tool, agent }].into();
        let request = |(index, task): (usize, &String)| SpawnRequest {
            path: Arc::clone(&path),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            task: task.clone(),
            max_turns: None,
            timeout: None,
            lifetime: ChildLifetime::Call,
        };
        let requests = tasks.iter().enumerate().map(request).collect();
        let started = host.start(cx, requests, self.concurrency).await?;
        let runs = started.iter().map(|child| child.run).collect();
        let reports = host.wait(cx, runs, WaitOptions::default()).await?;
        Ok(ToolOutput::text(report::report_text(&tasks, &reports)?))
    }
}

/// The arguments of the fan-out tool.
#[derive(Debug, Deserialize, JsonSchema)]
struct FanOutArgs {
    /// One entry per task. Each agent sees only its own task, so include everything it needs to know.
    tasks: Vec<String>,
}
