//! An agent as a tool of another agent.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, Tool, ToolContext, ToolError, ToolOutput, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    AgentPathSegment, ChildLifetime, ChildReport, ChildStatus, HookInheritance, SpawnRequest,
    WaitOptions, erase_tool,
};
use crate::agent::reference::AgentRef;
use crate::error::BuildError;
use crate::subagent::spawner_of;

/// Timeout of calls that wait for children. It is long because the children have limits of their own.
pub(super) const CHILD_CALL_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An agent that another agent can call as a tool.
#[derive(Debug, Clone)]
pub struct Subagent {
    pub(crate) agent: AgentRef,
    pub(crate) description: String,
    pub(crate) name: Option<String>,
    pub(crate) background: bool,
    pub(crate) detached: bool,
    pub(crate) hooks: HookInheritance,
}

impl Subagent {
    /// Makes this agent callable. The description tells the model when to call it.
    pub fn new(agent: impl Into<AgentRef>, description: impl Into<String>) -> Self {
        Self {
            agent: agent.into(),
            description: description.into(),
            name: None,
            background: true,
            detached: false,
            hooks: HookInheritance::Inherit,
        }
    }

    /// Sets the tool's name. Without it, the tool has the agent's name.
    #[must_use]
    pub fn named(mut self, tool: impl Into<String>) -> Self {
        self.name = Some(tool.into());
        self
    }

    /// Sets whether the model may run the agent in the background. True by default.
    #[must_use]
    pub fn background(mut self, is_allowed: bool) -> Self {
        self.background = is_allowed;
        self
    }

    /// Lets background runs of the agent continue after the run that started them has ended.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Sets which hooks observe the agent.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    pub(crate) fn tool_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.agent.name().replace('.', "_"))
    }

    /// Creates the tool that calls the agent.
    pub(crate) fn tool(&self) -> Result<Arc<dyn Tool>, BuildError> {
        erase_tool(self.create_tool())
    }

    /// Creates the tool that calls the agent.
    fn create_tool(&self) -> Result<FnTool, ToolSpecError> {
        let name = self.tool_name();
        let agent = self.agent.name().to_string();
        let config = Arc::new(SubagentToolConfig {
            segment: AgentPathSegment::Subagent { tool: name.clone(), agent },
            background: self.background,
            detached: self.detached,
        });
        let tool = tool_fn(name, &self.description, move |cx: ToolContext, args: SubagentArgs| {
            let config = Arc::clone(&config);
            async move { config.run(&cx, args).await }
        })?;
        // A repeated call finds the child that the first one started.
        Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent).timeout(CHILD_CALL_TIMEOUT)))
    }
}

/// The arguments of the tool.
#[derive(Debug, Deserialize, JsonSchema)]
struct SubagentArgs {
    /// The task. The agent sees nothing else, so include everything it needs to know.
    task: String,
    /// True to run the task in the background. Get the result later with get_task_result.
    #[serde(default)]
    background: bool,
    /// Maximum rounds of tool calls. 0 uses the agent's own limit.
    #[serde(default)]
    max_turns: u32,
}

struct SubagentToolConfig {
    segment: AgentPathSegment,
    background: bool,
    detached: bool,
}

impl SubagentToolConfig {
    /// Starts the agent and, unless it runs in the background, waits for its result.
    async fn run(&self, cx: &ToolContext, args: SubagentArgs) -> Result<ToolOutput, ToolError> {
        if args.task.trim().is_empty() {
            return Err(ToolError::retry("`task` is empty: describe the task"));
        }
        let background = args.background && self.background;
        let lifetime = match (background, self.detached) {
            (false, _) => ChildLifetime::Call,
            (true, false) => ChildLifetime::Run,
            (true, true) => ChildLifetime::Detached,
        };
        let request = SpawnRequest {
            path: [self.segment.clone()].into(),
            index: 0,
            task: args.task,
            max_turns: (args.max_turns > 0).then_some(args.max_turns),
            timeout: None,
            lifetime,
        };
        let host = spawner_of(cx)?;
        let started = host.start(cx, vec![request], None).await?;
        let Some(child) = started.into_iter().next() else {
            return Err(ToolError::failed("the agent was not started"));
        };
        if background {
            let launched = json!({
                "task_id": child.task_id,
                "agent_name": child.agent,
                "status": "launched",
            });
            return Ok(ToolOutput::text(launched.to_string()));
        }
        let reports = host.wait(cx, vec![child.run], WaitOptions::default()).await?;
        Ok(reports
            .first()
            .map_or_else(|| ToolOutput::error("the agent's run no longer exists"), output))
    }
}

/// Returns the output of a call that waited for one child. A child that did not complete is an error output.
fn output(report: &ChildReport) -> ToolOutput {
    match report.status {
        ChildStatus::Completed => ToolOutput::text(report.to_model_text()),
        _ => ToolOutput::error(report.failure_text()),
    }
}
