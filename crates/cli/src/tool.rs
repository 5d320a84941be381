//! The tools of the terminal's agent: small, useful without any set-up, and one that needs a person's consent.

mod calculator;
mod clock;
mod note;

use std::path::PathBuf;
use std::sync::Arc;

use provost_core::{Env, ErrorKind};
use provost_tool::{SpecError, Tool};

use crate::problem::Problem;

/// Where notes go unless somebody says otherwise.
pub(crate) const NOTES_DIR_DEFAULT: &str = "notes";

/// All tools of the agent; notes are written below `notes_dir`.
pub(crate) fn all(env: &Env, notes_dir: PathBuf) -> Result<Vec<Arc<dyn Tool>>, Problem> {
    let build = || -> Result<Vec<Arc<dyn Tool>>, SpecError> {
        Ok(vec![
            Arc::new(clock::tool(env.clone())?),
            Arc::new(calculator::tool()?),
            Arc::new(note::tool(notes_dir)?),
        ])
    };
    build().map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))
}
