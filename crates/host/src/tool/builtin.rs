//! Built-in tools of local agents.

use std::path::PathBuf;
use std::sync::Arc;

use provost_builtin::{calculator, clock_with_env, workspace_tools};
use provost_core::{Env, ErrorKind};
use provost_tool::{Tool, ToolSpecError};
use provost_workspace::{Access, WorkspaceRoot};

use crate::error::HostError;

/// Returns the clock, the calculator and the note tool. Notes are written to `notes_dir`.
pub fn builtin_tools(env: &Env, notes_dir: PathBuf) -> Result<Vec<Arc<dyn Tool>>, HostError> {
    let build = || -> Result<Vec<Arc<dyn Tool>>, ToolSpecError> {
        Ok(vec![
            Arc::new(clock_with_env(env.clone())?),
            Arc::new(calculator()?),
            Arc::new(super::note::tool(notes_dir)?),
        ])
    };
    build().map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))
}

/// Directory that an agent can use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Path of the directory.
    pub dir: PathBuf,
    /// True if the agent can change files. Each change requires approval.
    pub write: bool,
}

impl Files {
    /// Creates the access to a directory. `None` without a directory. The path becomes absolute, because another
    /// process that resumes a run can have another working directory.
    pub fn new(dir: Option<&PathBuf>, write: bool) -> Result<Option<Self>, HostError> {
        let Some(dir) = dir else { return Ok(None) };
        let dir =
            std::path::absolute(dir).map_err(|error| HostError::io("the workspace", &error))?;
        let files = Self { dir, write };
        // An unusable directory must be reported here and not by the first call.
        files.open()?;
        Ok(Some(files))
    }

    /// Returns the file tools of the directory.
    pub fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        workspace_tools(&self.open()?)
            .map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))
    }

    /// Opens the workspace with the configured access.
    fn open(&self) -> Result<WorkspaceRoot, HostError> {
        let access = if self.write { Access::ReadWrite } else { Access::ReadOnly };
        WorkspaceRoot::open(&self.dir, access).map_err(|error| {
            HostError::new(error.kind(), format!("cannot open the workspace: {error}"))
                .hint("select a directory with --workspace")
        })
    }
}
