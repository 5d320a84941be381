//! Adapters that derive one toolset from another.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ApprovalRequiredToolset, CombinedToolset, ConditionalApprovalToolset, FilteredToolset,
    PrefixedToolset, RenamedToolset, RunContext, SearchToolset, Toolset, ToolsetError,
};
use crate::ToolSpec;

/// Adapters that derive one toolset from another. Each adapter applies to the tools of the adapter before it.
///
/// ```
/// use provost_tool::{StaticToolset, ToolError, ToolsetExt, tool_fn};
///
/// let read = tool_fn("read", "Reads", |_cx, ()| async { Ok::<_, ToolError>("text") })?;
/// let write = tool_fn("write", "Writes", |_cx, ()| async { Ok::<_, ToolError>("done") })?;
/// let files = StaticToolset::new("files", []).with(read).with(write);
///
/// let tools = files
///     .filter(|cx, tool| tool.name() != "write" || cx.state.get("trusted") == Some(true))
///     .require_approval_if(|_cx, tool, _arguments| tool.name() == "write")
///     .prefix("disk_")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub trait ToolsetExt: Toolset + Sized {
    /// Offers only the tools that the predicate accepts. It is evaluated each turn and again before each call.
    fn filter(
        self,
        predicate: impl Fn(&RunContext, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> FilteredToolset {
        FilteredToolset::new(self.name().to_owned(), self, predicate)
    }

    /// Adds a prefix to the name of each tool. Returns an error if no valid tool name can begin with the prefix.
    fn prefix(self, prefix: impl Into<String>) -> Result<PrefixedToolset, ToolsetError> {
        PrefixedToolset::new(prefix, self)
    }

    /// Renames some tools. Returns an error if a new name is invalid or used twice.
    fn rename<K: Into<String>, V: Into<String>>(
        self,
        names: impl IntoIterator<Item = (K, V)>,
    ) -> Result<RenamedToolset, ToolsetError> {
        RenamedToolset::new(self, names)
    }

    /// Requires approval for the calls that the predicate selects.
    fn require_approval_if(
        self,
        predicate: impl Fn(&RunContext, &ToolSpec, &Value) -> bool + Send + Sync + 'static,
    ) -> ConditionalApprovalToolset {
        ConditionalApprovalToolset::new(self, predicate)
    }

    /// Requires approval for every call.
    fn require_approval(self) -> ApprovalRequiredToolset {
        ApprovalRequiredToolset::new(self)
    }

    /// Appends the tools of another toolset.
    fn and(self, other: impl Toolset) -> CombinedToolset {
        let sets: [Arc<dyn Toolset>; 2] = [Arc::new(self), Arc::new(other)];
        CombinedToolset::new(sets[0].name().to_owned(), sets)
    }

    /// Offers a search tool instead of all tools. A tool is offered after a search has found it.
    fn searchable(self) -> SearchToolset {
        SearchToolset::new(self)
    }
}

impl<T: Toolset> ToolsetExt for T {}
