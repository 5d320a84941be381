//! Built-in tools: the files of a workspace, pages of the web, the time, arithmetic.
//!
//! A [`Workspace`] is a directory that no path leaves: not by `..`, not by a link, not by a directory that becomes a link while a
//! call is under way. [`workspace_tools`] are the tools for it: `read`, `list` and `search`, and where the workspace may be
//! changed also `write` and `edit`, which ask a person unless told otherwise. [`fetch`] reads pages through a
//! client that checks every address; [`clock`] and [`calculator`] need nothing. [`shell_tools`] run command lines in a sandbox, as
//! far as an [`ExecPolicy`] lets them.
//!
//! ```
//! use provost_builtin::workspace_tools;
//! use provost_workspace::{Access, Workspace};
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = dir.path();
//! let workspace = Workspace::open(project, Access::ReadOnly)?;
//! let tools = workspace_tools(&workspace)?;
//! let names: Vec<_> = tools.iter().map(|tool| tool.spec().name()).collect();
//! assert_eq!(names, ["read", "list", "search"]);
//! // Agent::builder("clerk", model).tools(tools) ..
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: whatever a model sends, nothing outside of the workspace is read or written; every input, output and amount of
//! work has a bound with a name ([`limits`]); a tool does one thing and its schema is sealed.

mod blocking;
mod calculator;
mod clock;
mod files;
pub mod limits;
pub mod shell;
mod web;

use std::sync::Arc;

use provost_tool::{SpecError, Tool};
use provost_workspace::{Access, Workspace};

pub use calculator::calculator;
pub use clock::{clock, clock_of};
pub use files::edit::{EditTool, edit};
pub use files::list::list;
pub use files::read::{read, read_output};
pub use files::search::search;
pub use files::write::write;
pub use shell::{ExecPolicy, ShellOptions, shell_tools};
pub use web::{fetch, fetch_keeping};

/// The tools that a workspace allows, those that only look first.
pub fn workspace_tools(
    workspace: &Workspace,
) -> std::result::Result<Vec<Arc<dyn Tool>>, SpecError> {
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
