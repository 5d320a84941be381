//! Children whose definition is part of their parent's: sub-agents, fan-outs, members of a team.
//!
//! Such a child runs the agent of its parent's profile, taken down the way that its parent's definition names.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use provost_agent::subagent::{
    AgentPath, AgentPathSegment, ChildLifetime, SpawnRequest, SpawnedChild,
};
use provost_agent::{Agent, RunBuilder};
use provost_core::command::{InputProvenance, ProvenanceKind, TaskRequest};
use provost_core::durable::{self, DurableEvent};
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::lifecycle::RequestError;
use provost_core::recovery::{ChildIds, EffectKey, child_ids_of_call};
use provost_core::{ContentPart, RunId};
use provost_store::Tx;
use provost_store::query::deferred_run as held_row;
use provost_store::table::governance::agent;
use provost_store::table::work::run::{self, ChildRow, RunRow};
use serde::{Deserialize, Serialize};

use super::{Cleanup, Notify, Terms};
use crate::agent::AgentProfile;
use crate::attempt::restore;
use crate::error::EngineError;
use crate::input::{EncodedMessage, IncomingMessage};
use crate::queue;
use crate::run::event;
use crate::run::lifecycle::{policy, word};
use crate::run::settle::held;
use crate::submit::{self, ClassAssignment, NewIds, NewTask, Parent, Sibling, TaskAgent};
use crate::worker::lease::Lease;
use provost_store::table::work::run_state::DEFERRED;

/// What the labels of children begin with that may outlive their call.
const LABEL_PREFIX: &str = "task-";

/// Where a child comes from, kept with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Birth {
    /// The run above it.
    parent: RunId,
    /// The way from the agent of the profile to its own definition.
    place: AgentPath,
    /// The agents above it.
    above: String,
    /// Its own name.
    pub(super) agent: String,
    /// How deep it is, and may be.
    depth: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth_max: Option<u32>,
    /// The call that asked for it.
    pub(super) call_id: String,
    pub(super) index: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    pub(super) life: ChildLifetime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    /// The trace it belongs to, as a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    /// True if others of its call wait for it to end before they begin.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) queues: bool,
}

impl Birth {
    /// Of a run, if it has one.
    pub(crate) fn of(run: &RunRow) -> Result<Option<Self>, EngineError> {
        Ok(Terms::of(run)?.birth)
    }

    /// The last step of the way to its definition.
    pub(crate) fn hop(&self) -> Option<&AgentPathSegment> {
        self.place.last()
    }

    /// The run of its team's lead and its name there, if it is a member of one.
    pub(crate) fn membership(&self) -> Option<(RunId, String)> {
        match self.hop() {
            Some(AgentPathSegment::Member { name, .. }) => Some((self.parent, name.clone())),
            _ => None,
        }
    }

    /// From what is kept with a run.
    pub(crate) fn read(spawn: &str) -> Result<Option<Self>, EngineError> {
        let terms: Terms = serde_json::from_str(spawn)?;
        Ok(terms.birth)
    }

    /// The span of its attempts, in the trace of the run above.
    pub(crate) fn span(birth: Option<&Self>, run: RunId) -> tracing::Span {
        let span = tracing::info_span!("attempt", run.id = %run);
        if let Some(parent) = birth.and_then(|birth| birth.traceparent.as_deref()) {
            provost_agent::trace::adopt(&span, parent);
        }
        span
    }

    /// The way from the agent of the profile to its definition.
    pub(super) fn place(&self) -> &[AgentPathSegment] {
        &self.place
    }

    fn named(&self) -> Named {
        Named::below(&self.above, &self.agent, self.label.clone())
    }

    /// Its agent, from the agent of the profile.
    pub(crate) fn agent(&self, root: &Agent) -> Result<Agent, EngineError> {
        root.resolve_path(&self.place).map_err(|problem| {
            EngineError::bug(format!("the definition of a child was not found: {problem}"))
        })
    }

    /// Makes its run what it is.
    pub(crate) fn place_in(&self, builder: RunBuilder) -> RunBuilder {
        let builder = builder.under(self.above.clone(), self.depth, self.depth_max);
        match self.max_turns {
            Some(turns) => builder.at_most_turns(turns),
            None => builder,
        }
    }
}

/// A child that was asked for before.
pub(super) type KnownChild = (ChildRow, Named);

/// What a child is called.
pub(super) struct Named {
    pub(super) agent: Arc<str>,
    /// Its agent with those above it.
    pub(super) path: String,
    /// What the model calls it, if it may outlive its call.
    pub(super) label: Option<String>,
}

impl Named {
    fn below(above: &str, agent: &str, label: Option<String>) -> Self {
        Self { agent: agent.into(), path: format!("{above}/{agent}"), label }
    }

    /// As is kept with a child; nothing, if its definition is not its parent's.
    pub(super) fn of(child: &ChildRow) -> Result<Self, EngineError> {
        let birth = Terms::read(child.spawn.as_deref())?.birth;
        let nameless = || Self { agent: "".into(), path: String::new(), label: None };
        Ok(birth.as_ref().map_or_else(nameless, Birth::named))
    }

    /// The child as the call that started it knows it.
    fn started(self, run: RunId) -> SpawnedChild {
        SpawnedChild { run, task_id: self.label, agent: self.agent }
    }
}

/// Everything the transaction needs that makes the children of a call.
pub(super) struct Births {
    pub(super) lease: Arc<Lease>,
    pub(super) key: EffectKey,
    pub(super) call_id: String,
    /// For whom the run above is.
    pub(super) user: Option<String>,
    /// The agent that asks, with those above it, and how deep it is.
    pub(super) above: String,
    pub(super) depth: u32,
    pub(super) depth_max: Option<u32>,
    /// The way from the agent of the profile to the one that asks.
    pub(super) place: Vec<AgentPathSegment>,
    pub(super) step: u64,
    pub(super) traceparent: Option<String>,
    pub(super) asks: Vec<SpawnRequest>,
    pub(super) at_once: Option<usize>,
}

impl Births {
    /// The runs that this call has asked for before, with what they are called; `None` if one of them was not made yet.
    pub(super) fn known(&self, tx: &mut Tx<'_>) -> Result<Option<Vec<KnownChild>>, EngineError> {
        let mut known = Vec::new();
        for ask in &self.asks {
            let id = child_ids_of_call(self.lease.run, &self.key, ask.index).run;
            // If it has another parent, that is found out when it is made.
            let Some(row) = run::child(tx, self.lease.run, id)? else { return Ok(None) };
            let named = match ask.lifetime {
                // It has no label, and the rest is the same whenever it is asked for.
                ChildLifetime::Call => Named::below(&self.above, ask_agent(ask), None),
                ChildLifetime::Run | ChildLifetime::Detached => Named::of(&row)?,
            };
            known.push((row, named));
        }
        Ok(Some(known))
    }

    /// A caller may choose the id of a run: what has the id of a child and another parent is none.
    fn check_ours(&self, row: &RunRow) -> Result<(), EngineError> {
        if row.parent_run_id == Some(self.lease.run) {
            return Ok(());
        }
        Err(EngineError::not_found("run", row.id))
    }

    /// Makes those of some of the asks that were not made before.
    pub(super) fn create(
        &self,
        tx: &mut Tx<'_>,
        asks: Range<usize>,
    ) -> Result<Vec<SpawnedChild>, EngineError> {
        let mut parent = held(tx, &self.lease)?;
        if parent.cancel_requested.is_some() {
            let problem = "the run is being cancelled";
            return Err(RequestError::invalid("run", problem, "start nothing more").into());
        }
        if let Some(max) = self.depth_max
            && self.depth >= max
        {
            let problem = format!("{max} levels of agents below the first one are allowed");
            return Err(RequestError::invalid("depth", problem, "do it yourself").into());
        }
        let namespace: Namespace = word(&parent.namespace)?;
        let lane = self.lane();
        let basis = self.basis(tx, &namespace, &parent, &lane)?;
        let mut labels = self.labels(tx)?;
        let by = restore::requester(tx, &parent)?;
        let mut room = self.room(tx)?;
        let mut started = Vec::with_capacity(asks.len());
        let mut events = Vec::with_capacity(asks.len());
        for ask in &self.asks[asks] {
            let ChildIds { run: id, task } =
                child_ids_of_call(self.lease.run, &self.key, ask.index);
            if run::is_known(tx, id)? {
                let row = run::get(tx, id)?.ok_or_else(|| EngineError::not_found("run", id))?;
                self.check_ours(&row)?;
                started.push(Named::of(&row.into())?.started(id));
                continue;
            }
            let birth = self.birth(ask, &mut labels);
            started.push(birth.named().started(id));
            let birth = Some(birth);
            let terms = Terms { notify: Notify::Silent, cleanup: Cleanup::Keep, birth };
            let held = room == 0;
            room = room.saturating_sub(1);
            let command =
                TaskRequest { requested_by: by.clone(), ..self.command(&parent, ask, id, &lane)? };
            command.validate()?;
            let encoded = EncodedMessage::new(&command, tx.now())?;
            let new = NewTask {
                namespace: &namespace,
                ids: NewIds { run: id, task, ..NewIds::draw(tx, &command) },
                // The id of the run makes a repeat harmless, so the input needs no key.
                message: &IncomingMessage::new(&command, &encoded, /*key*/ ""),
                parent: Some(Parent {
                    task: parent.task_id,
                    run: parent.id,
                    step: self.step,
                    depth: parent.depth,
                    policy: basis.ceiling.clone(),
                    spawn: serde_json::to_string(&terms)?,
                    sibling: Some(Sibling { index: ask.index, held }),
                }),
            };
            let agent = TaskAgent { profile: &basis.profile, class: &basis.class };
            submit::insert_task(tx, &new, &agent, /*session*/ None)?;
            events.push(DurableEvent::ChildStarted(durable::ChildStarted::OfCall {
                run: id,
                task,
                agent: ask_agent(ask).to_owned(),
                call_id: self.call_id.clone(),
                index: ask.index,
                step: self.step,
            }));
        }
        event::append_events(tx, &mut parent, &events)?;
        parent.save(tx)?;
        Ok(started)
    }

    /// How many more of them may begin now.
    fn room(&self, tx: &mut Tx<'_>) -> Result<usize, EngineError> {
        let Some(at_once) = self.at_once else { return Ok(usize::MAX) };
        // As long as one waits for the end of another, all places are taken.
        if held_row::next(tx, self.lease.run, self.step, DEFERRED)?.is_some() {
            return Ok(0);
        }
        let at_work = run::live_of_step(tx, self.lease.run, self.step)?;
        Ok(at_once.saturating_sub(usize::try_from(at_work).unwrap_or(usize::MAX)))
    }

    /// Reads the agent revision of the parent. A child may never do more than its parent.
    fn basis(
        &self,
        tx: &mut Tx<'_>,
        namespace: &Namespace,
        parent: &RunRow,
        lane: &str,
    ) -> Result<ChildBasis, EngineError> {
        let row = agent::get(tx, &parent.namespace, &parent.agent, parent.agent_revision)?;
        let missing = || EngineError::not_found("agent", &parent.agent);
        let profile = AgentProfile::read(row.ok_or_else(missing)?)?;
        let ceiling = policy(parent)?;
        let own = profile.policy(&[], Some(&ceiling))?;
        let class = ClassAssignment::new(tx, namespace, &profile, Some(lane), &own)?;
        Ok(ChildBasis { profile, class, ceiling })
    }

    /// A run that waits for those below it must not take the places they need.
    fn lane(&self) -> String {
        format!("below-{}", self.depth + 1)
    }

    /// How many children of this run have a label.
    fn labels(&self, tx: &mut Tx<'_>) -> Result<usize, EngineError> {
        if self.asks.iter().all(|ask| ask.lifetime == ChildLifetime::Call) {
            return Ok(0);
        }
        let mut labels = 0;
        for child in run::children(tx, self.lease.run)? {
            labels += usize::from(Birth::of(&child)?.is_some_and(|birth| birth.label.is_some()));
        }
        Ok(labels)
    }

    fn birth(&self, ask: &SpawnRequest, labels: &mut usize) -> Birth {
        // A member of a team is called by its name.
        let labelled = ask.lifetime != ChildLifetime::Call && ask.member().is_none();
        let label = labelled.then(|| {
            *labels += 1;
            format!("{LABEL_PREFIX}{labels}")
        });
        Birth {
            parent: self.lease.run,
            place: self.place.iter().chain(&*ask.path).cloned().collect(),
            above: self.above.clone(),
            agent: ask_agent(ask).to_owned(),
            depth: self.depth + 1,
            depth_max: self.depth_max,
            call_id: self.call_id.clone(),
            index: ask.index,
            label,
            life: ask.lifetime,
            max_turns: ask.max_turns,
            traceparent: self.traceparent.clone(),
            queues: self.at_once.is_some_and(|at_once| self.asks.len() > at_once),
        }
    }

    fn command(
        &self,
        parent: &RunRow,
        ask: &SpawnRequest,
        id: RunId,
        lane: &str,
    ) -> Result<TaskRequest, EngineError> {
        let session: SessionName = word(&id.to_string().replacen("run", "ses", 1))?;
        let millis = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        Ok(TaskRequest {
            message: vec![ContentPart::text(&ask.task)],
            lane: Some(lane.to_owned()),
            agent: Some(parent.agent.clone()),
            session_id: Some(session),
            timeout_ms: ask.timeout.map(millis),
            label: Some(format!("{}/{}", self.above, ask_agent(ask))),
            spawned_by: Some(format!("run:{}", parent.id)),
            input_provenance: Some(InputProvenance {
                kind: ProvenanceKind::InterSession,
                source: Some(parent.session_id.clone()),
                tool_call_id: Some(self.call_id.clone()),
                correlation_id: Some(parent.id.to_string()),
                ..InputProvenance::default()
            }),
            new_task: true,
            user: self.user.clone(),
            ..TaskRequest::default()
        })
    }
}

/// What the children of one call share.
struct ChildBasis {
    profile: AgentProfile,
    class: ClassAssignment,
    /// The policy of the parent.
    ceiling: ExecutionPolicy,
}

/// What a child is called.
fn ask_agent(ask: &SpawnRequest) -> &str {
    ask.path.last().map(AgentPathSegment::agent).unwrap_or_default()
}

/// Makes the next deferred child of the same call ready, because one of its siblings has ended.
pub(super) fn release_next(tx: &mut Tx<'_>, ended: &RunRow) -> Result<(), EngineError> {
    let (Some(parent), Some(step)) = (ended.parent_run_id, ended.parent_step) else {
        return Ok(());
    };
    if ended.is_deferred() {
        // It had no slot to leave.
        return Ok(());
    }
    match held_row::next(tx, parent, step, DEFERRED)? {
        Some(next) => queue::release(tx, ended, next),
        None => Ok(()),
    }
}
