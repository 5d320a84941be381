//! The membership of a run in a team. It is the only source of a participant's identity.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use provost_core::RunId;
use provost_tool::{ToolContext, ToolError};

use crate::driver::DriverContext;
use crate::team::command::{TeamCommand, TeamResponse};
use crate::team::state::LEAD;
use crate::team::store::TeamStore;

/// The membership of a run in a team. Team tools read it from the run's dependencies.
#[derive(Clone)]
pub struct TeamMembership {
    team: Arc<str>,
    name: Arc<str>,
    store: Arc<dyn TeamStore>,
    /// The run that owns the membership. Child runs inherit dependencies, but are not participants.
    run: Option<RunId>,
    /// Weak, because a tool may outlive its run.
    context: Arc<Mutex<Weak<DriverContext>>>,
}

impl TeamMembership {
    /// Creates the membership of the lead.
    pub fn lead(team: impl Into<Arc<str>>, store: Arc<dyn TeamStore>) -> Self {
        Self::member(team, LEAD, store)
    }

    /// Creates the membership of a member.
    pub fn member(
        team: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        store: Arc<dyn TeamStore>,
    ) -> Self {
        let (team, name) = (team.into(), name.into());
        Self { team, name, store, run: None, context: Arc::default() }
    }

    /// Returns the membership of the calling run. Returns an error if the run is not in a team.
    pub fn of(cx: &ToolContext) -> Result<Self, ToolError> {
        let no_team = || ToolError::failed("this run is not a participant of a team");
        let membership = cx.dep::<Self>().map_err(|_none| no_team())?;
        if membership.run == Some(cx.run_id()) {
            Ok(Self::clone(&membership))
        } else {
            Err(no_team())
        }
    }

    /// Returns the name of the team.
    pub fn team(&self) -> &str {
        &self.team
    }

    /// Returns the name of the participant.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true for the lead.
    pub fn is_lead(&self) -> bool {
        &*self.name == LEAD
    }

    /// Returns the store of the team's state.
    pub fn store(&self) -> &Arc<dyn TeamStore> {
        &self.store
    }

    /// Creates the membership of a member of the same team.
    pub(crate) fn for_member(&self, name: &str) -> Self {
        Self::member(Arc::clone(&self.team), name, Arc::clone(&self.store))
    }

    /// Returns the membership for a run. Team tools of other runs cannot use it.
    pub(crate) fn for_run(self, run: RunId) -> Self {
        Self { run: Some(run), context: Arc::default(), ..self }
    }

    /// Sets the agent context of the participant.
    pub(crate) fn bind(&self, context: Weak<DriverContext>) {
        *self.context.lock() = context;
    }

    /// Returns the agent context of the participant. `None` after its run has ended.
    pub(crate) fn context(&self) -> Option<Arc<DriverContext>> {
        self.context.lock().upgrade()
    }

    /// Applies a command of a tool call. A repeated call gets the same response.
    pub(crate) async fn apply(
        &self,
        cx: &ToolContext,
        command: TeamCommand,
    ) -> Result<TeamResponse, ToolError> {
        self.store.apply(Some(cx.effect_key()), command).await
    }
}

impl fmt::Debug for TeamMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TeamMembership")
            .field("team", &self.team)
            .field("name", &self.name)
            .finish()
    }
}
