//! One agent on many tasks at once.

mod shown;

use std::sync::Arc;

use provost_core::recovery::EffectClass;
use provost_tool::{SpecError, Tool, ToolCx, ToolError, ToolOutput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    AgentPath, AgentPathSegment, ChildLifetime, HookInheritance, SpawnRequest, WaitOptions,
};
use crate::agent::reference::AgentRef;
use crate::error::BuildError;
use crate::subagent::host;
use crate::subagent::tool::CHILD_CALL_TIMEOUT;

/// Tasks of one call unless the agent says otherwise.
const ITEMS_DEFAULT: usize = 100;
/// Tasks that are worked on at once unless the agent says otherwise.
const AT_ONCE_DEFAULT: usize = 16;

/// How an agent may split work among many runs of another one.
#[derive(Debug, Clone)]
pub struct FanOut {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) concurrency: Option<usize>,
    pub(crate) max_items: usize,
    pub(crate) hooks: HookInheritance,
}

impl FanOut {
    /// A tool of this name.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            concurrency: Some(AT_ONCE_DEFAULT),
            max_items: ITEMS_DEFAULT,
            hooks: HookInheritance::Inherit,
        }
    }

    /// Sets how many tasks are worked on at once; 0 for all of them.
    #[must_use]
    pub fn concurrency(mut self, at_once: usize) -> Self {
        self.concurrency = (at_once > 0).then_some(at_once);
        self
    }

    /// Sets the most tasks of one call.
    #[must_use]
    pub fn max_items(mut self, items: usize) -> Self {
        self.max_items = items;
        self
    }

    /// Sets whose hooks see what the agents do.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    /// The tool by which the model splits work.
    pub(crate) fn tool(&self, agent: &AgentRef) -> Result<Arc<dyn Tool>, BuildError> {
        if self.max_items == 0 {
            let problem =
                format!("fan-out `{}` allows no tasks: set max_items to 1 or more", self.name);
            return Err(BuildError::Setting(problem));
        }
        let hop =
            AgentPathSegment::FanOut { tool: self.name.clone(), agent: agent.name().to_string() };
        super::erase_tool(self.spec(hop))
    }

    fn spec(&self, hop: AgentPathSegment) -> Result<provost_tool::FnTool, SpecError> {
        let terms = Arc::new((self.clone(), hop));
        let tool = tool_fn(&self.name, &self.description, move |cx: ToolCx, args: FanOutArgs| {
            let terms = Arc::clone(&terms);
            async move { terms.0.run(&cx, args.tasks, &terms.1).await }
        })?;
        Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent).timeout(CHILD_CALL_TIMEOUT)))
    }

    async fn run(
        &self,
        cx: &ToolCx,
        tasks: Vec<String>,
        hop: &AgentPathSegment,
    ) -> Result<ToolOutput, ToolError> {
        if tasks.is_empty() {
            return Err(ToolError::retry("`tasks` is empty: give at least one"));
        }
        if tasks.len() > self.max_items {
            let (given, max) = (tasks.len(), self.max_items);
            let text =
                format!("`tasks` has {given} entries, at most {max} are allowed: split them");
            return Err(ToolError::Retry(text));
        }
        if let Some(empty) = tasks.iter().position(|task| task.trim().is_empty()) {
            return Err(ToolError::Retry(format!("task {} is empty", empty + 1)));
        }
        let host = host(cx)?;
        let place: AgentPath = [hop.clone()].into();
        let ask = |(index, task): (usize, &String)| SpawnRequest {
            path: Arc::clone(&place),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            task: task.clone(),
            max_turns: None,
            timeout: None,
            lifetime: ChildLifetime::Call,
        };
        let asks = tasks.iter().enumerate().map(ask).collect();
        let started = host.start(cx, asks, self.concurrency).await?;
        let runs = started.iter().map(|child| child.run).collect();
        let ended = host.wait(cx, runs, WaitOptions::default()).await?;
        Ok(ToolOutput::text(shown::bounded(&tasks, &ended)?))
    }
}

/// What the work is split into.
#[derive(Debug, Deserialize, JsonSchema)]
struct FanOutArgs {
    /// One entry for each task. Each agent sees only its own: say everything it needs to know.
    tasks: Vec<String>,
}
