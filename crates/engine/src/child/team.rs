//! The teams of durable runs: their book is a row, and everybody who belongs to one changes it in transactions.
//!
//! A member is a child of its lead's run. Its end is noted in the transaction that ends its run, so the lead never waits for
//! a member that is over, whichever process dies.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use provost_agent::subagent::AgentPathSegment;
use provost_agent::team::{
    MemberOutcome, MemberStatus, TeamCommand, TeamError, TeamFuture, TeamMembership, TeamResponse,
    TeamState, TeamStore, TeamWait,
};
use provost_bus::{Topic, Wakeup};
use provost_core::RunId;
use provost_core::durable::{DurableEvent, MemberChanged};
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::EffectKey;
use provost_store::table::state::team::{self, TeamRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Hint, Store, Tx};
use provost_tool::{ToolCx, ToolError};
use serde_json::Value;

use crate::child::{self, Birth};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::run::event;
use crate::run::lifecycle::word;
use crate::run::settle::held;
use crate::worker::lease::Lease;

/// Others may have changed the book without a word to this process.
const POLL: Duration = Duration::from_secs(1);

/// A team's book in the database, for one of its runs.
pub(crate) struct EngineDesk {
    store: Store,
    lease: Arc<Lease>,
    /// The run of the lead.
    lead: RunId,
    /// The book of a team that has none yet.
    fresh: TeamState,
}

/// The place of a run in a team: that of the lead of its own, or of a member of the one above.
pub(crate) fn seat(
    shared: &EngineInner,
    lease: &Arc<Lease>,
    own: Option<TeamState>,
    member: Option<Membership>,
) -> Option<TeamMembership> {
    let desk = |lead, fresh: TeamState| {
        let store = shared.store.clone();
        Arc::new(EngineDesk { store, lease: Arc::clone(lease), lead, fresh })
    };
    match (own, member) {
        (Some(book), _) => {
            Some(TeamMembership::lead(book.team().to_owned(), desk(lease.run, book)))
        }
        (None, Some(Membership { lead, name, book })) => {
            Some(TeamMembership::member(book.team().to_owned(), name, desk(lead, book)))
        }
        (None, None) => None,
    }
}

/// A run's place in the team of another.
pub(crate) struct Membership {
    lead: RunId,
    name: String,
    book: TeamState,
}

/// The place of a member, if there is such a team.
pub(crate) async fn membership(
    shared: &EngineInner,
    birth: Option<&Birth>,
) -> Result<Option<Membership>, EngineError> {
    let Some((lead, name)) = birth.and_then(Birth::membership) else { return Ok(None) };
    let book = shared.store.read(move |tx| load(tx, lead)).await?;
    Ok(book.map(|book| Membership { lead, name, book }))
}

/// Has come what somebody of a team waits for?
pub(crate) fn is_so(tx: &mut Tx<'_>, lead: RunId, until: &TeamWait) -> Result<bool, EngineError> {
    Ok(load(tx, lead)?.is_none_or(|book| match until {
        TeamWait::Message(name) => book.unread_count(name) > 0 || !book.can_receive(name),
        TeamWait::AllFinished => book.active() == 0,
    }))
}

/// The runs of the members of a team that are not over.
pub(crate) fn at_work(tx: &mut Tx<'_>, lead: RunId) -> Result<Vec<RunId>, EngineError> {
    Ok(load(tx, lead)?.map(|book| runs_at_work(&book).collect()).unwrap_or_default())
}

fn runs_at_work(book: &TeamState) -> impl Iterator<Item = RunId> {
    book.members().iter().filter(|member| member.is_active()).filter_map(|member| member.run)
}

impl EngineDesk {
    async fn look(&self, until: &TeamWait) -> Result<bool, EngineError> {
        let (lead, until) = (self.lead, until.clone());
        self.store.read(move |tx| is_so(tx, lead, &until)).await
    }

    async fn until(&self, until: &TeamWait) -> Result<(), EngineError> {
        loop {
            // Listening starts before looking, so a change in between is not missed.
            let mut changed = self.store.bus().subscribe(Topic::Wakeup(Wakeup::Events(self.lead)));
            if self.look(until).await? {
                return Ok(());
            }
            changed.woken_or_after(POLL, |_| true).await;
        }
    }
}

impl TeamStore for EngineDesk {
    fn apply<'a>(
        &'a self,
        key: Option<&'a EffectKey>,
        action: TeamCommand,
    ) -> TeamFuture<'a, TeamResponse> {
        let (lease, lead, fresh) = (Arc::clone(&self.lease), self.lead, self.fresh.clone());
        let key = key.cloned();
        async move {
            let acted = self.store.write(move |tx| {
                held(tx, &lease)?;
                let mut book = load(tx, lead)?.unwrap_or_else(|| fresh.clone());
                act(tx, lead, &mut book, key.as_ref(), action.clone())
            });
            Ok(acted.await.map_err(ToolError::from)??)
        }
        .boxed()
    }

    fn wait(&self, until: TeamWait, timeout: Option<Duration>) -> TeamFuture<'_, ()> {
        async move {
            match timeout {
                // That nothing came is no failure: whoever waits looks for itself.
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
        cx: &'a ToolCx,
        until: TeamWait,
        timeout: Duration,
        _left: Duration,
    ) -> TeamFuture<'a, bool> {
        async move {
            if self.look(&until).await? {
                return Ok(false);
            }
            // The run is parked until then; this call is made again.
            child::wait_for_team(cx, self.lead, until, timeout)?;
            Ok(true)
        }
        .boxed()
    }

    fn parks_lead(&self) -> bool {
        true
    }
}

fn load(tx: &mut Tx<'_>, lead: RunId) -> Result<Option<TeamState>, EngineError> {
    let row = team::get(tx, lead)?;
    Ok(row.map(|row| serde_json::from_str(&row.book)).transpose()?)
}

/// Performs an action, stores the book and tells of it in the lead's log. What the book refuses changes nothing.
fn act(
    tx: &mut Tx<'_>,
    lead: RunId,
    book: &mut TeamState,
    key: Option<&EffectKey>,
    action: TeamCommand,
) -> Result<Result<TeamResponse, TeamError>, EngineError> {
    let (before, now) = (book.revision(), tx.now());
    let acted = match key {
        Some(key) => book.apply_idempotent(key, action, now),
        None => book.apply(action, now),
    };
    let Ok(reply) = &acted else { return Ok(acted) };
    if book.revision() == before {
        return Ok(acted);
    }
    let event = event_of(book.team(), reply);
    // Without those that are over with this: they wait for nothing any more.
    let concerned: Vec<RunId> = std::iter::once(lead).chain(runs_at_work(book)).collect();
    let (book, updated) = (serde_json::to_string(book)?, now);
    team::put(tx, &TeamRow { run_id: lead, book, updated })?;
    // The end of a run is the last that its log tells.
    if let (Some(event), Some(mut row)) = (event, run::lock(tx, lead)?)
        && row.phase != "done"
    {
        event::append_event(tx, &mut row, event)?;
        row.save(tx)?;
    } else {
        tx.hint(Hint::Events(lead));
    }
    for run in concerned {
        child::join::team_changed(tx, run)?;
    }
    Ok(acted)
}

/// The event of a change, in the log of the lead.
fn event_of(team: &str, reply: &TeamResponse) -> Option<DurableEvent> {
    match reply {
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

/// A member's run has ended: its team learns of it in the same transaction.
pub(crate) fn member_ended(
    tx: &mut Tx<'_>,
    child: &RunRow,
    hop: Option<&AgentPathSegment>,
) -> Result<(), EngineError> {
    let (Some(lead), Some(AgentPathSegment::Member { name, .. })) = (child.parent_run_id, hop)
    else {
        return Ok(());
    };
    let Some(mut book) = load(tx, lead)? else { return Ok(()) };
    let detail = child.detail.clone();
    let end = match word::<RunStatus>(&child.status)? {
        RunStatus::Ok => {
            let result: Value = serde_json::from_str(child.result.as_deref().unwrap_or("{}"))?;
            MemberOutcome::Completed(result["text"].as_str().unwrap_or_default().to_owned())
        }
        RunStatus::Cancelled | RunStatus::Timeout => MemberOutcome::Stopped(detail),
        _ => MemberOutcome::Failed(detail.unwrap_or_else(|| "it gave no reason".to_owned())),
    };
    let over = TeamCommand::MemberFinished { name: name.clone(), end };
    // A team that was closed with its lead notes nothing any more.
    act(tx, lead, &mut book, None, over)?.map(drop).unwrap_or_default();
    Ok(())
}
