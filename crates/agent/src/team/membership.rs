//! Whose place in which team a run has. Who somebody is comes from here and from nothing else.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use provost_core::RunId;
use provost_tool::{ToolCx, ToolError};

use crate::driver::DriverContext;
use crate::team::command::{TeamCommand, TeamResponse};
use crate::team::state::LEAD;
use crate::team::store::TeamStore;

/// A run's place in a team. Its tools find it among what the run was given.
#[derive(Clone)]
pub struct TeamMembership {
    team: Arc<str>,
    name: Arc<str>,
    store: Arc<dyn TeamStore>,
    /// Whose it is: what a run was given reaches the runs below it, which have no part in the team.
    run: Option<RunId>,
    /// Weak, because a tool may outlive its run.
    context: Arc<Mutex<Weak<DriverContext>>>,
}

impl TeamMembership {
    /// The lead's place.
    pub fn lead(team: impl Into<Arc<str>>, desk: Arc<dyn TeamStore>) -> Self {
        Self::member(team, LEAD, desk)
    }

    /// A member's place.
    pub fn member(
        team: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        desk: Arc<dyn TeamStore>,
    ) -> Self {
        let (team, name) = (team.into(), name.into());
        Self { team, name, store: desk, run: None, context: Arc::default() }
    }

    /// The place of the run that makes this call.
    pub fn of(cx: &ToolCx) -> Result<Self, ToolError> {
        let no_team = || ToolError::failed("this run has no part in a team");
        let seat = cx.dep::<Self>().map_err(|_none| no_team())?;
        if seat.run == Some(cx.run_id()) { Ok(Self::clone(&seat)) } else { Err(no_team()) }
    }

    /// The team.
    pub fn team(&self) -> &str {
        &self.team
    }

    /// What the others call whoever has this place.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True for the lead's place.
    pub fn is_lead(&self) -> bool {
        &*self.name == LEAD
    }

    /// Where the team's book is kept.
    pub fn store(&self) -> &Arc<dyn TeamStore> {
        &self.store
    }

    /// The place of a member of the same team.
    pub(crate) fn for_member(&self, name: &str) -> Self {
        Self::member(Arc::clone(&self.team), name, Arc::clone(&self.store))
    }

    /// Gives the place to a run.
    pub(crate) fn for_run(self, run: RunId) -> Self {
        Self { run: Some(run), context: Arc::default(), ..self }
    }

    /// Sets the agent that holds the place.
    pub(crate) fn bind(&self, holder: Weak<DriverContext>) {
        *self.context.lock() = holder;
    }

    /// The agent that holds the place, while its run lives.
    pub(crate) fn context(&self) -> Option<Arc<DriverContext>> {
        self.context.lock().upgrade()
    }

    /// Performs an action of a call.
    pub(crate) async fn apply(
        &self,
        cx: &ToolCx,
        act: TeamCommand,
    ) -> Result<TeamResponse, ToolError> {
        self.store.apply(Some(cx.effect_key()), act).await
    }
}

impl fmt::Debug for TeamMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("team", &self.team).field("name", &self.name).finish()
    }
}
