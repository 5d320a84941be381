//! The context of a run for hooks, toolsets and instruction providers.

use std::sync::Arc;

use provost_core::RunId;
use provost_session::Session;

use crate::{Deps, State};

/// Context of the run that calls a hook, a toolset or an instruction provider.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// Id of the run.
    pub run_id: RunId,
    /// Path of the agent, with its parent agents.
    pub agent: Arc<str>,
    /// Number of the model call that a toolset lists tools for, starting at 1. It is 0 in hooks and instruction
    /// providers.
    pub turn: u32,
    /// Label of the background task that this run executes, such as `task-1`. `None` if it is not a background task.
    pub task_id: Option<Arc<str>>,
    /// Session of the run. `None` if it has none.
    pub session: Option<Session>,
    /// Dependencies that the application gave to the run.
    pub deps: Deps,
    /// State of the run.
    pub state: State,
}
