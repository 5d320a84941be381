//! Whose place in which team a run has. Who somebody is comes from here and from nothing else.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use provost_core::RunId;
use provost_tool::{ToolCx, ToolError};

use crate::driver::Cx;
use crate::team::command::{TeamAction, TeamReply};
use crate::team::state::LEAD;
use crate::team::store::TeamDesk;

/// A run's place in a team. Its tools find it among what the run was given.
#[derive(Clone)]
pub struct Seat {
    team: Arc<str>,
    name: Arc<str>,
    desk: Arc<dyn TeamDesk>,
    /// Whose it is: what a run was given reaches the runs below it, which have no part in the team.
    run: Option<RunId>,
    /// Weak, because a tool may outlive its run.
    holder: Arc<Mutex<Weak<Cx>>>,
}

impl Seat {
    /// The lead's place.
    pub fn lead(team: impl Into<Arc<str>>, desk: Arc<dyn TeamDesk>) -> Self {
        Self::member(team, LEAD, desk)
    }

    /// A member's place.
    pub fn member(
        team: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
        desk: Arc<dyn TeamDesk>,
    ) -> Self {
        let (team, name) = (team.into(), name.into());
        Self { team, name, desk, run: None, holder: Arc::default() }
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
    pub fn desk(&self) -> &Arc<dyn TeamDesk> {
        &self.desk
    }

    /// The place of a member of the same team.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self::member(Arc::clone(&self.team), name, Arc::clone(&self.desk))
    }

    /// Gives the place to a run.
    pub(crate) fn of_run(self, run: RunId) -> Self {
        Self { run: Some(run), holder: Arc::default(), ..self }
    }

    /// Sets the agent that holds the place.
    pub(crate) fn bind(&self, holder: Weak<Cx>) {
        *self.holder.lock() = holder;
    }

    /// The agent that holds the place, while its run lives.
    pub(crate) fn holder(&self) -> Option<Arc<Cx>> {
        self.holder.lock().upgrade()
    }

    /// Performs an action of a call.
    pub(crate) async fn act(&self, cx: &ToolCx, act: TeamAction) -> Result<TeamReply, ToolError> {
        self.desk.act(Some(cx.effect_key()), act).await
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("team", &self.team).field("name", &self.name).finish()
    }
}
