//! The tools of the terminal's agent: small, useful without any set-up, and one that needs a person's consent.

mod note;
mod shell;

use std::path::PathBuf;
use std::sync::Arc;

use provost_builtin::{calculator, clock_of, workspace_tools};
use provost_core::{Env, ErrorKind};
use provost_tool::{SpecError, Tool};
use provost_workspace::{Access, Workspace};
use serde::{Deserialize, Serialize};

pub(crate) use self::shell::{Keeps, Shell, ShellArgs};
use crate::problem::Problem;

/// Where notes go unless somebody says otherwise.
pub(crate) const NOTES_DIR_DEFAULT: &str = "notes";

/// All tools of the agent; notes are written below `notes_dir`.
pub(crate) fn all(env: &Env, notes_dir: PathBuf) -> Result<Vec<Arc<dyn Tool>>, Problem> {
    let build = || -> Result<Vec<Arc<dyn Tool>>, SpecError> {
        Ok(vec![
            Arc::new(clock_of(env.clone())?),
            Arc::new(calculator()?),
            Arc::new(note::tool(notes_dir)?),
        ])
    };
    build().map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))
}

/// A directory that an agent may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    /// The directory.
    pub(crate) dir: PathBuf,
    /// True if it may be changed; a person is asked each time.
    #[serde(default)]
    pub(crate) write: bool,
}

impl Files {
    /// What the command line says; another process that goes on with a run may be somewhere else.
    pub(crate) fn new(dir: Option<&PathBuf>, write: bool) -> Result<Option<Self>, Problem> {
        let Some(dir) = dir else { return Ok(None) };
        let dir = std::path::absolute(dir).map_err(|error| Problem::io("the workspace", &error))?;
        let files = Self { dir, write };
        // What is wrong with it is said now and not by the first call.
        files.open()?;
        Ok(Some(files))
    }

    /// Its tools.
    pub(crate) fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, Problem> {
        workspace_tools(&self.open()?)
            .map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))
    }

    fn open(&self) -> Result<Workspace, Problem> {
        let access = if self.write { Access::ReadWrite } else { Access::ReadOnly };
        Workspace::open(&self.dir, access).map_err(|error| {
            Problem::new(error.kind(), format!("the workspace cannot be used: {error}"))
                .help("name a directory with --workspace")
        })
    }
}
