//! An agent as a tool of another agent.

use std::sync::Arc;
use std::time::Duration;

use provost_core::recovery::EffectClass;
use provost_tool::{FnTool, SpecError, Tool, ToolCx, ToolError, ToolOutput, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    AgentPathSegment, ChildLifetime, ChildReport, ChildStatus, HookInheritance, SpawnRequest,
    WaitOptions, erase_tool,
};
use crate::agent::reference::AgentRef;
use crate::error::BuildError;
use crate::subagent::host;

/// A call waits as long as its child works; the child has limits of its own.
pub(super) const CHILD_CALL_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How an agent may use another one as a tool.
#[derive(Debug, Clone)]
pub struct Subagent {
    pub(crate) description: String,
    pub(crate) name: Option<String>,
    pub(crate) background: bool,
    pub(crate) detached: bool,
    pub(crate) hooks: HookInheritance,
}

impl Subagent {
    /// What the model is told that this agent is good for.
    pub fn new(description: impl Into<String>) -> Self {
        Self {
            description: description.into(),
            name: None,
            background: true,
            detached: false,
            hooks: HookInheritance::Inherit,
        }
    }

    /// Names the tool; otherwise it is called as the agent.
    #[must_use]
    pub fn named(mut self, tool: impl Into<String>) -> Self {
        self.name = Some(tool.into());
        self
    }

    /// Sets whether the model may let it work in the background.
    #[must_use]
    pub fn background(mut self, may: bool) -> Self {
        self.background = may;
        self
    }

    /// Lets what works in the background go on when the run that started it is over.
    #[must_use]
    pub fn detached(mut self) -> Self {
        self.detached = true;
        self
    }

    /// Sets whose hooks see what it does.
    #[must_use]
    pub fn hooks(mut self, hooks: HookInheritance) -> Self {
        self.hooks = hooks;
        self
    }

    pub(crate) fn tool_name(&self, agent: &AgentRef) -> String {
        self.name.clone().unwrap_or_else(|| agent.name().replace('.', "_"))
    }

    /// The tool by which the model uses the agent.
    pub(crate) fn tool(&self, agent: &AgentRef) -> Result<Arc<dyn Tool>, BuildError> {
        erase_tool(self.build(agent))
    }

    fn build(&self, agent: &AgentRef) -> Result<FnTool, SpecError> {
        let name = self.tool_name(agent);
        let terms = Arc::new(SubagentToolConfig {
            hop: AgentPathSegment::Subagent { tool: name.clone(), agent: agent.name().to_string() },
            background: self.background,
            detached: self.detached,
        });
        let tool = tool_fn(name, &self.description, move |cx: ToolCx, args: SubagentArgs| {
            let terms = Arc::clone(&terms);
            async move { terms.run(&cx, args).await }
        })?;
        // Asking again finds the child that was started.
        Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent).timeout(CHILD_CALL_TIMEOUT)))
    }
}

/// What a sub-agent is asked.
#[derive(Debug, Deserialize, JsonSchema)]
struct SubagentArgs {
    /// What to do. The agent sees nothing else: say everything it needs to know.
    task: String,
    /// True to go on at once and ask for the result later with get_task_result.
    #[serde(default)]
    background: bool,
    /// Rounds of tool calls it may take; 0 for its own limit.
    #[serde(default)]
    max_turns: u32,
}

struct SubagentToolConfig {
    hop: AgentPathSegment,
    background: bool,
    detached: bool,
}

impl SubagentToolConfig {
    async fn run(&self, cx: &ToolCx, args: SubagentArgs) -> Result<ToolOutput, ToolError> {
        if args.task.trim().is_empty() {
            return Err(ToolError::retry("`task` is empty: say what the agent is to do"));
        }
        let background = args.background && self.background;
        let life = match (background, self.detached) {
            (false, _) => ChildLifetime::Call,
            (true, false) => ChildLifetime::Run,
            (true, true) => ChildLifetime::Detached,
        };
        let ask = SpawnRequest {
            path: [self.hop.clone()].into(),
            index: 0,
            task: args.task,
            max_turns: (args.max_turns > 0).then_some(args.max_turns),
            timeout: None,
            lifetime: life,
        };
        let host = host(cx)?;
        let started = host.start(cx, vec![ask], None).await?;
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
        let ended = host.wait(cx, vec![child.run], WaitOptions::default()).await?;
        Ok(ended.first().map_or_else(|| ToolOutput::error("the agent is gone"), output))
    }
}

/// The result of a call that waited for one child.
fn output(report: &ChildReport) -> ToolOutput {
    match report.status {
        ChildStatus::Completed => ToolOutput::text(report.to_model_text()),
        _ => ToolOutput::error(report.failure_text()),
    }
}
