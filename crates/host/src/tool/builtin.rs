//! The tools of the terminal's agent: small, useful without any set-up, and one that needs a person's consent.

use std::path::PathBuf;
use std::sync::Arc;

use provost_builtin::{calculator, clock_of, workspace_tools};
use provost_core::{Env, ErrorKind};
use provost_tool::{SpecError, Tool};
use provost_workspace::{Access, Workspace};
use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// All tools of the agent; notes are written below `notes_dir`.
pub fn builtin_tools(env: &Env, notes_dir: PathBuf) -> Result<Vec<Arc<dyn Tool>>, HostError> {
    let build = || -> Result<Vec<Arc<dyn Tool>>, SpecError> {
        Ok(vec![
            Arc::new(clock_of(env.clone())?),
            Arc::new(calculator()?),
            Arc::new(super::note::tool(notes_dir)?),
        ])
    };
    build().map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))
}

/// A directory that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// The directory.
    pub dir: PathBuf,
    /// True if it may be changed; a person is asked each time.
    #[serde(default)]
    pub write: bool,
}

impl Files {
    /// What the command line says; another process that goes on with a run may be somewhere else.
    pub fn new(dir: Option<&PathBuf>, write: bool) -> Result<Option<Self>, HostError> {
        let Some(dir) = dir else { return Ok(None) };
        let dir =
            std::path::absolute(dir).map_err(|error| HostError::io("the workspace", &error))?;
        let files = Self { dir, write };
        // What is wrong with it is said now and not by the first call.
        files.open()?;
        Ok(Some(files))
    }

    /// Its tools.
    pub fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        workspace_tools(&self.open()?)
            .map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))
    }

    fn open(&self) -> Result<Workspace, HostError> {
        let access = if self.write { Access::ReadWrite } else { Access::ReadOnly };
        Workspace::open(&self.dir, access).map_err(|error| {
            HostError::new(error.kind(), format!("the workspace cannot be used: {error}"))
                .hint("name a directory with --workspace")
        })
    }
}
