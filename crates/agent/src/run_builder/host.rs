//! Options of engines, which store runs themselves and execute them in any process.

use std::sync::Arc;

use provost_core::{RunId, Timestamp};
use provost_session::shared_state::StateOwners;
use provost_tool::GuardServices;
use serde_json::{Map, Value};

use crate::journal::Journal;
use crate::subagent::ChildSpawner;
use crate::team::TeamMembership;

/// Services and identity that an engine provides to a run that it stores itself.
#[derive(Clone, Default)]
pub struct HostContext {
    /// Services that govern each tool call of the run. They replace the services of its agents.
    pub guard: Arc<GuardServices>,
    /// Id of the run. `None` creates an id.
    pub run_id: Option<RunId>,
    /// Time at which the engine received the message. `None` uses the start of the run.
    pub received_at: Option<Timestamp>,
    /// Journal that records every step, so that the run can continue after a crash.
    pub journal: Option<Arc<dyn Journal>>,
    /// Owners and initial values of the shared state. The journal stores the changes, which it receives in
    /// [`RunStarted`](crate::run::RunStarted) and [`JournalEntry`](crate::run::JournalEntry).
    pub shared_values: Option<(StateOwners, Map<String, Value>)>,
    /// Spawner of child runs. `None` runs children as tasks of this process.
    pub spawner: Option<Arc<dyn ChildSpawner>>,
    /// Membership in a team whose state the engine stores.
    pub membership: Option<TeamMembership>,
    /// Parent of a child run. `None` for other runs.
    pub parent: Option<ParentAgent>,
    /// Maximum tool rounds that the parent allows. It can lower the agent's limit, not raise it.
    pub max_turns: Option<u32>,
}

/// The parent of a child run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentAgent {
    /// Path of the parent: the names of its ancestors and its own name.
    pub agent: String,
    /// Number of ancestors of the child.
    pub depth: u32,
    /// Limit on the depth of its descendants. `None` uses the limit of the child's agent.
    pub depth_max: Option<u32>,
}
