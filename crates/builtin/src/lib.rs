//! Built-in tools for files of a workspace, web pages, the time, arithmetic and shell commands.
//!
//! A [`WorkspaceRoot`] confines paths to a directory: neither `..`, nor a link, nor a directory that is replaced by a
//! link during a call can leave it. [`workspace_tools`] returns its tools: `read`, `list` and `search`, and for a
//! writable workspace also `write` and `edit`, which require approval by default. [`fetch`] reads pages through a
//! client that checks every address; [`clock`] and [`calculator`] have no prerequisites. [`shell_tools`] runs command
//! lines in a sandbox if an [`ExecPolicy`] permits them.
//!
//! ```
//! use provost_builtin::workspace_tools;
//! use provost_workspace::{Access, WorkspaceRoot};
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! let workspace = WorkspaceRoot::open(project, Access::ReadOnly)?;
//! let tools = workspace_tools(&workspace)?;
//! let names: Vec<_> = tools.iter().map(|tool| tool.spec().name()).collect();
//! assert_eq!(names, ["read", "list", "search"]);
//! // Agent::builder("clerk", model).tools(tools) ..
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: no input of a model reads or writes anything outside of the workspace. Every input, output and amount of
//! work has a named limit ([`limits`]). Each tool has one purpose, and its schema permits no additional properties.

mod blocking;
mod calculator;
mod clock;
mod files;
pub mod limits;
pub mod shell;
mod web;

use std::sync::Arc;

use provost_tool::{Tool, ToolSpecError};
use provost_workspace::{Access, WorkspaceRoot};

pub use calculator::calculator;
pub use clock::{clock, clock_with_env};
pub use files::edit::{EditTool, edit};
pub use files::list::list;
pub use files::read::{read, read_output};
pub use files::search::search;
pub use files::write::write;
pub use shell::{ExecPolicy, ShellOptions, shell_tools};
pub use web::{fetch, fetch_with_artifacts};

/// Creates the tools that the access mode of a workspace permits, read-only tools first. Empty without access.
pub fn workspace_tools(
    workspace: &WorkspaceRoot,
) -> std::result::Result<Vec<Arc<dyn Tool>>, ToolSpecError> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    if workspace.access() != Access::None {
        tools.push(Arc::new(read(workspace)?));
        tools.push(Arc::new(list(workspace)?));
        tools.push(Arc::new(search(workspace)?));
    }
    if workspace.access() == Access::ReadWrite {
        tools.push(Arc::new(write(workspace)?));
        tools.push(Arc::new(edit(workspace)?));
    }
    Ok(tools)
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

/// The documentation page about the tools, whose examples are tested with this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/builtin-tools.md")]
struct Page;
