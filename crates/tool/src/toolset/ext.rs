//! The ways to make one set of another, in the order they are read.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ApprovalTools, CompositeTools, ConfirmedTools, FilteredTools, PrefixedTools, RenamedTools,
    RunContext, SearchableTools, Toolset, ToolsetError,
};
use crate::ToolSpec;

/// Makes one set of another. Each step sees what the step before it gives.
///
/// ```
/// use provost_tool::{StaticTools, ToolError, ToolsetExt, tool_fn};
///
/// let read = tool_fn("read", "Reads", |_cx, ()| async { Ok::<_, ToolError>("text") })?;
/// let write = tool_fn("write", "Writes", |_cx, ()| async { Ok::<_, ToolError>("done") })?;
/// let files = StaticTools::new("files", []).with(read).with(write);
///
/// let tools = files
///     .filter(|cx, tool| tool.name() != "write" || cx.state.get("trusted") == Some(true))
///     .approve(|_cx, tool, _arguments| tool.name() == "write")
///     .prefix("disk_")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait ToolsetExt: Toolset + Sized {
    /// Shows only what the predicate lets through, each turn and again before each call.
    fn filter(
        self,
        keep: impl Fn(&RunContext, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> FilteredTools {
        FilteredTools::new(self.name().to_owned(), self, keep)
    }

    /// Puts a word before each name.
    fn prefix(self, prefix: impl Into<String>) -> Result<PrefixedTools, ToolsetError> {
        PrefixedTools::new(prefix, self)
    }

    /// Gives some tools other names.
    fn rename<K: Into<String>, V: Into<String>>(
        self,
        names: impl IntoIterator<Item = (K, V)>,
    ) -> Result<RenamedTools, ToolsetError> {
        RenamedTools::new(self, names)
    }

    /// Asks a person before the calls that the predicate names.
    fn approve(
        self,
        needs: impl Fn(&RunContext, &ToolSpec, &Value) -> bool + Send + Sync + 'static,
    ) -> ApprovalTools {
        ApprovalTools::new(self, needs)
    }

    /// Asks a person before every call.
    fn confirm(self) -> ConfirmedTools {
        ConfirmedTools::new(self)
    }

    /// Joins another set behind this one.
    fn and(self, other: impl Toolset) -> CompositeTools {
        let sets: [Arc<dyn Toolset>; 2] = [Arc::new(self), Arc::new(other)];
        CompositeTools::new(sets[0].name().to_owned(), sets)
    }

    /// Shows the model a search instead of all tools at once.
    fn searchable(self) -> SearchableTools {
        SearchableTools::new(self)
    }
}

impl<T: Toolset> ToolsetExt for T {}
