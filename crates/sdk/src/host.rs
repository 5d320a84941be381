//! Interfaces for engines: programs that store runs themselves and resume them after a crash.
//!
//! Unstable: these interfaces change without notice. Other programs do not need this module.
//!
//! - [`HostContext`]: the services that an engine provides to a run, see `RunBuilder::host`.
//! - [`run`]: the state machine of a run. It performs no I/O and returns the next step.
//! - [`journal`]: records each step before its side effect.
//! - [`ChildSpawner`]: starts child runs in place of tasks of this process.
//! - [`TeamStore`]: stores the state of teams.

pub use provost_agent::subagent::{
    AgentPath, AgentPathSegment, ChildFuture, ChildLifetime, ChildReport, ChildSpawner,
    ChildStatus, SpawnRequest, SpawnedChild, WaitOptions,
};
pub use provost_agent::team::{
    InMemoryTeamStore, TeamCommand, TeamError, TeamFuture, TeamMembership, TeamResponse, TeamState,
    TeamStore, TeamWait,
};
pub use provost_agent::{HostContext, ParentAgent, journal, run};
pub use provost_session::shared_state::StateOwners;
