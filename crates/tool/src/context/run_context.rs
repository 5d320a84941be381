//! The run, as code of the program sees it.

use std::sync::Arc;

use provost_core::RunId;
use provost_session::Session;

use crate::{Deps, State};

/// The run in which a hook, a toolset or an instruction provider is called.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The run.
    pub run_id: RunId,
    /// The agent, with the agents above it.
    pub agent: Arc<str>,
    /// The model call that a toolset is asked for, from 1; 0 in hooks and instructions.
    pub turn: u32,
    /// The label of the background task that the run is: `task-1`.
    pub task_id: Option<Arc<str>>,
    /// The session of the run.
    pub session: Option<Session>,
    /// Values that the program gave to the run.
    pub deps: Deps,
    /// The run's own notes.
    pub state: State,
}
