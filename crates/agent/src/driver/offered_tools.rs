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
    /// Lists the tools of every toolset once. A toolset that fails is skipped with a warning.
    pub(crate) async fn gather(cx: &DriverContext, run: &Run) -> Self {
        let mut toolbox = Self { tools: Vec::with_capacity(cx.tools.len()) };
        let stays = !run.can_handoff();
        let coordinates = cx.core.family.team.as_ref().is_some_and(|team| team.coordinator_only);
        for tool in &cx.tools {
            if coordinates && !is_team_tool(tool.spec().name()) {
                continue;
            }
            if stays && cx.hands_off(tool.spec().name()) {
                continue;
            }
            toolbox.add(cx, Arc::clone(tool));
        }
        if cx.core.toolsets.is_empty() || coordinates {
            return toolbox;
        }
        // A run that resumes with unfinished calls is still in the turn that made them.
        let turn = if run.unfinished_calls().is_empty() { run.turns() + 1 } else { run.turns() };
        let context = RunContext { turn, ..cx.hooks.context().clone() };
        for toolset in &cx.core.toolsets {
            match toolset.tools(&context).await {
                Ok(tools) => tools.into_iter().for_each(|tool| toolbox.add(cx, tool)),
                Err(error) => {
                    let message = format!("toolset `{}` is not available: {error}", toolset.name());
                    let message = cx.shared_guard.redacted(message);
                    cx.queue.emit(EventKind::Warning { message });
                }
            }
        }
        toolbox
    }

    fn add(&mut self, cx: &DriverContext, tool: Arc<dyn Tool>) {
        let spec = tool.spec();
        let output = cx.core.output.as_ref();
        if self.find(spec.name()).is_some()
            || output.is_some_and(|output| output.tool.name == spec.name())
        {
            let message = format!("a second tool called `{}` was left out", spec.name());
            cx.queue.emit(EventKind::Warning { message });
            return;
        }
        self.tools.push(tool);
    }

    /// Removes the tools that are not among these definitions.
    pub(crate) fn keep(&mut self, defs: &[Arc<ToolDefinition>]) {
        self.tools.retain(|tool| defs.iter().any(|def| def.name == tool.spec().name()));
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name() == name)
    }

    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> =
            self.tools.iter().map(|tool| tool.spec().name()).take(NAMES_TOLD_MAX).collect();
        match names.len() {
            0 => "none".to_owned(),
            NAMES_TOLD_MAX => format!("{}, …", names.join(", ")),
            _ => names.join(", "),
        }
    }

    /// The definitions sent to the model. The output tool is last.
    pub(crate) fn defs(&self, cx: &DriverContext, run: &Run) -> Vec<Arc<ToolDefinition>> {
        let offered = |tool: &&Arc<dyn Tool>| {
            let spec = tool.spec();
            !run.is_withdrawn(spec.name(), spec.retries)
        };
        let mut defs: Vec<_> =
            self.tools.iter().filter(offered).map(|tool| Arc::clone(tool.spec().def())).collect();
        if let (OutputMode::Tool(_), Some(spec)) = (&run.config().output, &cx.core.output) {
            defs.push(Arc::clone(&spec.tool));
        }
        defs
    }
}
