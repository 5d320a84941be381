//! The tools of one turn.

use std::sync::Arc;

use provost_core::{EventKind, ToolDefinition};
use provost_tool::{RunContext, Tool};

use super::setup::DriverContext;
use crate::run::{OutputMode, Run};
use crate::team::is_team_tool;

/// Maximum number of tool names in an error about an unknown tool.
const NAMES_TOLD_MAX: usize = 50;

/// The tools that are offered to the model in one turn. Exactly these can run.
#[derive(Clone, Default)]
pub(crate) struct OfferedTools {
    tools: Vec<Arc<dyn Tool>>,
}

impl OfferedTools {
    /// Lists the tools for a turn: the fixed tools, and the tools of every toolset. A toolset that fails is skipped
    /// with a warning.
    pub(crate) async fn gather(cx: &DriverContext, run: &Run) -> Self {
        let mut offered_tools = Self { tools: Vec::with_capacity(cx.tools.len()) };
        let stays = !run.can_handoff();
        let coordinates =
            cx.definition.family.team.as_ref().is_some_and(|team| team.coordinator_only);
        for tool in &cx.tools {
            if coordinates && !is_team_tool(tool.spec().name()) {
                continue;
            }
            if stays && cx.hands_off(tool.spec().name()) {
                continue;
            }
            offered_tools.add(cx, Arc::clone(tool));
        }
        if cx.definition.toolsets.is_empty() || coordinates {
            return offered_tools;
        }
        // A run that resumes with unfinished calls is still in the turn that made them.
        let turn = if run.unfinished_calls().is_empty() { run.turns() + 1 } else { run.turns() };
        let context = RunContext { turn, ..cx.hooks.context().clone() };
        for toolset in &cx.definition.toolsets {
            match toolset.tools(&context).await {
                Ok(tools) => tools.into_iter().for_each(|tool| offered_tools.add(cx, tool)),
                Err(error) => {
                    let message = format!("toolset `{}` is not available: {error}", toolset.name());
                    let message = cx.shared_guard.redact(message);
                    cx.events.emit(EventKind::Warning { message });
                }
            }
        }
        offered_tools
    }

    /// Adds a tool. A second tool with the same name is left out with a warning.
    fn add(&mut self, cx: &DriverContext, tool: Arc<dyn Tool>) {
        let spec = tool.spec();
        let output = cx.definition.output.as_ref();
        if self.find(spec.name()).is_some()
            || output.is_some_and(|output| output.tool.name == spec.name())
        {
            let message = format!("a second tool called `{}` was left out", spec.name());
            cx.events.emit(EventKind::Warning { message });
            return;
        }
        self.tools.push(tool);
    }

    /// Removes the tools that are not among these definitions.
    pub(crate) fn keep(&mut self, defs: &[Arc<ToolDefinition>]) {
        self.tools.retain(|tool| defs.iter().any(|def| def.name == tool.spec().name()));
    }

    /// Returns the tool with this name. `None` if it is not offered.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name() == name)
    }

    /// Returns the names of the tools for an error message.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> =
            self.tools.iter().map(|tool| tool.spec().name()).take(NAMES_TOLD_MAX).collect();
        match names.len() {
            0 => "none".to_owned(),
            NAMES_TOLD_MAX => format!("{}, …", names.join(", ")),
            _ => names.join(", "),
        }
    }

    /// Returns the definitions for the model, the output tool last. Tools without retries left are omitted.
    pub(crate) fn defs(&self, cx: &DriverContext, run: &Run) -> Vec<Arc<ToolDefinition>> {
        let offered = |tool: &&Arc<dyn Tool>| {
            let spec = tool.spec();
            !run.is_withdrawn(spec.name(), spec.retries)
        };
        let mut defs: Vec<_> =
            self.tools.iter().filter(offered).map(|tool| Arc::clone(tool.spec().def())).collect();
        if let (OutputMode::Tool(_), Some(spec)) = (&run.config().output, &cx.definition.output) {
            defs.push(Arc::clone(&spec.tool));
        }
        defs
    }
}
