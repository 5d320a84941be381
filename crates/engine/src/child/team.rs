//! Teams of durable runs. The state of a team is a row, and its runs change it in transactions.
//!
//! A member is a child of the lead's run. The transaction that ends the run of a member also records its end in the
//! team, so a lead never waits for an ended member, even after a crash.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_agent::team::{
    MemberOutcome, MemberStatus, TeamCommand, TeamError, TeamFuture, TeamMembership, TeamResponse,
    TeamState, TeamStore, TeamWait,
};
use provost_bus::{Topic, Wakeup};
use provost_core::RunId;
use provost_core::durable::{DurableEvent, MemberChanged};
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::recovery::EffectKey;
use provost_store::table::state::team::{self, TeamRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Store, Tx};
use provost_tool::{ToolContext, ToolError};
use serde_json::Value;

use crate::child::{self, ChildOrigin};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::run::event;
use crate::run::settle::lock_leased_run;
use crate::worker::lease::Lease;

/// Polling interval. Another process may change the state without a wakeup.
const POLL: Duration = Duration::from_secs(1);

/// State of a team in the database, for one of its runs.
pub(crate) struct DurableTeamStore {
    store: Store,
    lease: Arc<Lease>,
    /// Run of the lead.
    lead: RunId,
    /// State of a team that is not stored yet.
    initial: TeamState,
}

/// Returns the membership of a run: the lead of its own team, or a member of its parent's team.
pub(crate) fn team_membership(
    shared: &EngineInner,
    lease: &Arc<Lease>,
    own: Option<TeamState>,
    member: Option<TeamMemberRef>,
) -> Option<TeamMembership> {
    let store = |lead, initial: TeamState| {
        let store = shared.store.clone();
        Arc::new(DurableTeamStore { store, lease: Arc::clone(lease), lead, initial })
    };
    match (own, member) {
        (Some(state), _) => {
            Some(TeamMembership::lead(state.team().to_owned(), store(lease.run, state)))
        }
        (None, Some(TeamMemberRef { lead, name, state })) => {
            Some(TeamMembership::member(state.team().to_owned(), name, store(lead, state)))
        }
        (None, None) => None,
    }
}

/// Reference of a member run to its team.
pub(crate) struct TeamMemberRef {
    lead: RunId,
    name: String,
    state: TeamState,
}

/// Loads the team of a member. `None` if the run is not a member or the team does not exist.
pub(crate) async fn load_member(
    shared: &EngineInner,
    child_origin: Option<&ChildOrigin>,
) -> Result<Option<TeamMemberRef>, EngineError> {
    let Some((lead, name)) = child_origin.and_then(ChildOrigin::membership) else {
        return Ok(None);
    };
    let state = shared.store.read(move |tx| load(tx, lead)).await?;
    Ok(state.map(|state| TeamMemberRef { lead, name, state }))
}

/// Returns true if the awaited condition of a team is met, the awaited member can receive no more messages, or there is
/// no team.
pub(crate) fn is_condition_met(
    tx: &mut Tx<'_>,
    lead: RunId,
    until: &TeamWait,
) -> Result<bool, EngineError> {
    Ok(load(tx, lead)?.is_none_or(|state| match until {
        TeamWait::Message(name) => state.unread_count(name) > 0 || !state.can_receive(name),
        TeamWait::AllFinished => state.active() == 0,
    }))
}

/// Returns the runs of the members that have not ended.
pub(crate) fn running_members(tx: &mut Tx<'_>, lead: RunId) -> Result<Vec<RunId>, EngineError> {
    Ok(load(tx, lead)?.map(|state| running_runs(&state).collect()).unwrap_or_default())
}

/// Returns the runs of the active members.
fn running_runs(state: &TeamState) -> impl Iterator<Item = RunId> {
    state.members().iter().filter(|member| member.is_active()).filter_map(|member| member.run)
}

impl DurableTeamStore {
    /// Returns true if the condition of the team is met now.
    async fn check(&self, until: &TeamWait) -> Result<bool, EngineError> {
        let (lead, until) = (self.lead, until.clone());
        self.store.read(move |tx| is_condition_met(tx, lead, &until)).await
    }

    /// Waits until the condition of the team is met.
    async fn until(&self, until: &TeamWait) -> Result<(), EngineError> {
        loop {
            // Subscribes before checking, so that a change in between is not missed.
            let mut changed = self.store.bus().subscribe(Topic::Wakeup(Wakeup::Events(self.lead)));
            if self.check(until).await? {
                return Ok(());
            }
            changed.woken_or_after(POLL, |_| true).await;
        }
    }
}

impl TeamStore for DurableTeamStore {
    fn apply<'a>(
        &'a self,
        key: Option<&'a EffectKey>,
        action: TeamCommand,
    ) -> TeamFuture<'a, TeamResponse> {
        let (lease, lead, initial) = (Arc::clone(&self.lease), self.lead, self.initial.clone());
        let key = key.cloned();
        async move {
            let applied = self.store.write(move |tx| {
                lock_leased_run(tx, &lease)?;
                let mut state = load(tx, lead)?.unwrap_or_else(|| initial.clone());
                apply_command(tx, lead, &mut state, key.as_ref(), action.clone())
            });
            Ok(applied.await.map_err(ToolError::from)??)
        }
        .boxed()
    }

    fn wait(&self, until: TeamWait, timeout: Option<Duration>) -> TeamFuture<'_, ()> {
        async move {
            match timeout {
                // A timeout is no error: the caller checks the state itself.
                Some(timeout) => match tokio::time::timeout(timeout, self.until(&until)).await {
                    Ok(waited) => waited?,
                    Err(_elapsed) => {}
                },
                None => self.until(&until).await?,
            }
            Ok(())
        }
        .boxed()
    }

    fn wait_in_call<'a>(
        &'a self,
        cx: &'a ToolContext,
        until: TeamWait,
        timeout: Duration,
        _left: Duration,
    ) -> TeamFuture<'a, bool> {
        async move {
            if self.check(&until).await? {
                return Ok(false);
            }
            // Parks the run until then. The call then runs again.
            child::wait_for_team(cx, self.lead, until, timeout)?;
            Ok(true)
        }
        .boxed()
    }

    fn parks_lead(&self) -> bool {
        true
    }
}

/// Loads the state of the team of a lead. `None` if it has none.
fn load(tx: &mut Tx<'_>, lead: RunId) -> Result<Option<TeamState>, EngineError> {
    let row = team::get(tx, lead)?;
    Ok(row.map(|row| serde_json::from_str(&row.book)).transpose()?)
}

/// Applies a command, stores the state, appends an event to the lead's log, and settles the joins that wait for the
/// team. A rejected command changes nothing.
fn apply_command(
    tx: &mut Tx<'_>,
    lead: RunId,
    state: &mut TeamState,
    key: Option<&EffectKey>,
    action: TeamCommand,
) -> Result<Result<TeamResponse, TeamError>, EngineError> {
    let (before, now) = (state.revision(), tx.now());
    let applied = match key {
        Some(key) => state.apply_idempotent(key, action, now),
        None => state.apply(action, now),
    };
    let Ok(response) = &applied else { return Ok(applied) };
    if state.revision() == before {
        return Ok(applied);
    }
    let event = event_of(state.team(), response);
    // Members that end with this command no longer wait.
    let affected: Vec<RunId> = std::iter::once(lead).chain(running_runs(state)).collect();
    let (state, updated) = (serde_json::to_string(state)?, now);
    team::put(tx, &TeamRow { run_id: lead, book: state, updated })?;
    // The end of a run is the last event of its log.
    if let (Some(event), Some(mut row)) = (event, run::lock(tx, lead)?)
        && row.phase != RunPhase::Done
    {
        event::append_event(tx, &mut row, event)?;
        row.save(tx)?;
    } else {
        tx.wake(Wakeup::Events(lead));
    }
    for run in affected {
        child::join::team_changed(tx, run)?;
    }
    Ok(applied)
}

/// Returns the event of a change, for the log of the lead. `None` if the change has no event.
fn event_of(team: &str, response: &TeamResponse) -> Option<DurableEvent> {
    match response {
        TeamResponse::Member { member, .. } => {
            let changed = MemberChanged {
                team: team.to_owned(),
                member: member.name.clone(),
                task: member.task.clone(),
                result: member.result.clone(),
                error: member.error.clone(),
            };
            match member.status {
                MemberStatus::Active if member.run.is_some() => None,
                MemberStatus::Active => Some(DurableEvent::TeammateSpawned(changed)),
                MemberStatus::Completed => Some(DurableEvent::TeammateComplete(changed)),
                MemberStatus::Failed => Some(DurableEvent::TeammateError(changed)),
                MemberStatus::Stopped => Some(DurableEvent::TeammateStopped(changed)),
            }
        }
        TeamResponse::Sent { message, .. } => Some(DurableEvent::TeamMessage(message.clone())),
        _ => None,
    }
}

/// Records the end of a member's run in its team, in the same transaction.
pub(crate) fn member_ended(
    tx: &mut Tx<'_>,
    child: &RunRow,
    lead: RunId,
    name: &str,
) -> Result<(), EngineError> {
    let Some(mut state) = load(tx, lead)? else { return Ok(()) };
    let detail = child.detail.clone();
    let end = match child.status {
        RunStatus::Ok => {
            let result: Value = serde_json::from_str(child.result.as_deref().unwrap_or("{}"))?;
            MemberOutcome::Completed(result["text"].as_str().unwrap_or_default().to_owned())
        }
        RunStatus::Cancelled | RunStatus::Timeout => MemberOutcome::Stopped(detail),
        _ => MemberOutcome::Failed(detail.unwrap_or_else(|| "no reason was recorded".to_owned())),
    };
    let finished = TeamCommand::MemberFinished { name: name.to_owned(), end };
    // A team that ended with its lead records nothing more.
    apply_command(tx, lead, &mut state, None, finished)?.map(drop).unwrap_or_default();
    Ok(())
}
