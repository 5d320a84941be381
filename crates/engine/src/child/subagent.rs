//! Children whose definition is part of their parent's agent: subagents, fan-outs and members of teams.
//!
//! Such a child uses the agent revision of its parent. Its path leads from the agent of the revision to its own
//! definition.

use std::ops::Range;
use std::sync::Arc;

use provost_agent::subagent::{
    AgentPath, AgentPathSegment, ChildLifetime, SpawnRequest, SpawnedChild,
};
use provost_agent::{Agent, ParentAgent};
use provost_core::RunId;
use provost_core::durable::{self, DurableEvent};
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::id::name::{Namespace, RunSession, SessionName};
use provost_core::lifecycle::RequestError;
use provost_core::recovery::{ChildIds, EffectKey, child_ids_of_call};
use provost_store::Tx;
use provost_store::table::governance::agent;
use provost_store::table::work::run::{self, ChildRunRow, RunRow};
use serde::{Deserialize, Serialize};

use super::request::ChildRequest;
use super::{ChildCleanup, ParentNotification, SpawnOptions};
use crate::agent::AgentRevision;
use crate::attempt::restore;
use crate::error::EngineError;
use crate::input::{EncodedMessage, IncomingMessage};
use crate::run::event;
use crate::run::settle::lock_leased_run;
use crate::submit::queue;
use crate::submit::{
    self, ClassAssignment, NewIds, NewTask, ParentRun, SiblingPosition, TaskAgent,
};
use crate::worker::lease::Lease;

/// Prefix of the labels of children that may outlive their call.
const LABEL_PREFIX: &str = "task-";

/// Origin of a child. Stored in the row of the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChildOrigin {
    /// Parent run.
    parent: RunId,
    /// Path from the agent of the revision to the definition of the child.
    #[serde(rename = "place")]
    agent_path: AgentPath,
    /// Names of the agents above the child, separated by slashes.
    #[serde(rename = "above")]
    ancestors: String,
    /// Name of the child's agent.
    pub(super) agent: String,
    /// Depth of the child, and its maximum.
    depth: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth_max: Option<u32>,
    /// Tool call that created the child.
    pub(super) call_id: String,
    pub(super) index: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) label: Option<String>,
    pub(super) life: ChildLifetime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    /// Trace of the child, as a W3C `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    /// True if siblings of the same call may wait for the end of this child.
    #[serde(default, rename = "queues", skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_deferred_siblings: bool,
}

impl ChildOrigin {
    /// Returns the origin of a run. `None` if the run is not a subagent.
    pub(crate) fn of(run: &RunRow) -> Result<Option<Self>, EngineError> {
        Ok(SpawnOptions::of(run)?.child_origin)
    }

    /// Returns the run of the team's lead and the member's name. `None` if the child is no member of a team.
    pub(crate) fn membership(&self) -> Option<(RunId, String)> {
        match self.agent_path.last() {
            Some(AgentPathSegment::Member { name, .. }) => Some((self.parent, name.clone())),
            _ => None,
        }
    }

    /// Parses the stored spawn options of a run. `None` if the run is not a subagent.
    pub(crate) fn read(spawn: &str) -> Result<Option<Self>, EngineError> {
        let options: SpawnOptions = serde_json::from_str(spawn)?;
        Ok(options.child_origin)
    }

    /// Creates the span of an attempt, in the trace of the parent run.
    pub(crate) fn span(child_origin: Option<&Self>, run: RunId) -> tracing::Span {
        let span = tracing::info_span!("attempt", run.id = %run);
        if let Some(parent) =
            child_origin.and_then(|child_origin| child_origin.traceparent.as_deref())
        {
            provost_agent::trace::set_parent(&span, parent);
        }
        span
    }

    /// Returns the path from the agent of the revision to the definition.
    pub(super) fn agent_path(&self) -> &[AgentPathSegment] {
        &self.agent_path
    }

    /// Returns the names of the child.
    fn name(&self) -> ChildName {
        ChildName::below(&self.ancestors, &self.agent, self.label.clone())
    }

    /// Returns the agent of the child, resolved from the agent of the revision.
    pub(crate) fn agent(&self, root: &Agent) -> Result<Agent, EngineError> {
        root.resolve_path(&self.agent_path).map_err(|problem| {
            EngineError::bug(format!("the definition of a child was not found: {problem}"))
        })
    }

    /// Returns the parent of the run.
    pub(crate) fn parent(&self) -> ParentAgent {
        ParentAgent { agent: self.ancestors.clone(), depth: self.depth, depth_max: self.depth_max }
    }

    /// Returns the turn limit that the parent set.
    pub(crate) fn max_turns(&self) -> Option<u32> {
        self.max_turns
    }
}

/// A child that exists already, with its name.
pub(super) type ExistingChild = (ChildRunRow, ChildName);

/// Names of a child.
pub(super) struct ChildName {
    pub(super) agent: Arc<str>,
    /// Name of its agent, after the names of its ancestors.
    pub(super) path: String,
    /// Label for the model, if the child may outlive its call.
    pub(super) label: Option<String>,
}

impl ChildName {
    /// Creates the name of an agent below its ancestors.
    fn below(ancestors: &str, agent: &str, label: Option<String>) -> Self {
        Self { agent: agent.into(), path: format!("{ancestors}/{agent}"), label }
    }

    /// Reads the names of a stored child. They are empty if its definition is not part of its parent's.
    pub(super) fn of(child: &ChildRunRow) -> Result<Self, EngineError> {
        let child_origin = SpawnOptions::read(child.spawn.as_deref())?.child_origin;
        let nameless = || Self { agent: "".into(), path: String::new(), label: None };
        Ok(child_origin.as_ref().map_or_else(nameless, ChildOrigin::name))
    }

    /// Returns the child for the call that started it.
    fn started(self, run: RunId) -> SpawnedChild {
        SpawnedChild { run, task_id: self.label, agent: self.agent }
    }
}

/// Input of the transactions that create the children of a call.
pub(super) struct SpawnBatch {
    pub(super) lease: Arc<Lease>,
    pub(super) key: EffectKey,
    pub(super) call_id: String,
    /// User that the parent run works for.
    pub(super) user: Option<String>,
    /// Name of the requesting agent with its ancestors, and its depth.
    pub(super) ancestors: String,
    pub(super) depth: u32,
    pub(super) depth_max: Option<u32>,
    /// Path from the agent of the revision to the requesting agent.
    pub(super) agent_path: Vec<AgentPathSegment>,
    pub(super) step: u64,
    pub(super) traceparent: Option<String>,
    pub(super) requests: Vec<SpawnRequest>,
    pub(super) concurrency: Option<usize>,
}

impl SpawnBatch {
    /// Returns the children of this call with their names. `None` if one of them does not exist yet.
    pub(super) fn known(&self, tx: &mut Tx<'_>) -> Result<Option<Vec<ExistingChild>>, EngineError> {
        let mut known = Vec::new();
        for request in &self.requests {
            let id = child_ids_of_call(self.lease.run, &self.key, request.index).run;
            // The creation finds a run with another parent.
            let Some(row) = run::child(tx, self.lease.run, id)? else { return Ok(None) };
            let name = match request.lifetime {
                // A child without a label has the same names in every request.
                ChildLifetime::Call => ChildName::below(&self.ancestors, agent_name(request), None),
                ChildLifetime::Run | ChildLifetime::Detached => ChildName::of(&row)?,
            };
            known.push((row, name));
        }
        Ok(Some(known))
    }

    /// Checks that a run with the id of a child has this parent. A caller may choose the id of a run.
    fn check_parent(&self, row: &RunRow) -> Result<(), EngineError> {
        if row.parent_run_id == Some(self.lease.run) {
            return Ok(());
        }
        Err(EngineError::not_found("run", row.id))
    }

    /// Creates the children of some requests, except for those that exist. Fails if the run is being cancelled or the
    /// depth is exhausted. Children without a free slot are deferred.
    pub(super) fn create(
        &self,
        tx: &mut Tx<'_>,
        requests: Range<usize>,
    ) -> Result<Vec<SpawnedChild>, EngineError> {
        let mut parent = lock_leased_run(tx, &self.lease)?;
        self.check_may_spawn(&parent)?;
        let defaults = self.defaults(tx, &parent)?;
        let mut labels = self.count_labels(tx)?;
        let mut free_slots = self.free_slots(tx)?;
        let mut started = Vec::with_capacity(requests.len());
        let mut events = Vec::with_capacity(requests.len());
        for request in &self.requests[requests] {
            let ids = child_ids_of_call(self.lease.run, &self.key, request.index);
            if run::is_known(tx, ids.run)? {
                started.push(self.existing(tx, ids.run)?);
                continue;
            }
            let child = NewChild {
                request,
                ids,
                origin: self.child_origin(request, &mut labels),
                is_deferred: free_slots == 0,
            };
            free_slots = free_slots.saturating_sub(1);
            started.push(child.origin.name().started(child.ids.run));
            events.push(self.insert(tx, &parent, &defaults, child)?);
        }
        event::append_events(tx, &mut parent, &events)?;
        parent.save(tx)?;
        Ok(started)
    }

    /// Checks that the parent is not being cancelled and that its depth allows children.
    fn check_may_spawn(&self, parent: &RunRow) -> Result<(), EngineError> {
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
        Ok(())
    }

    /// Returns a child that an earlier transaction has created.
    fn existing(&self, tx: &mut Tx<'_>, id: RunId) -> Result<SpawnedChild, EngineError> {
        let row = run::get(tx, id)?.ok_or_else(|| EngineError::not_found("run", id))?;
        self.check_parent(&row)?;
        Ok(ChildName::of(&row.into())?.started(id))
    }

    /// Inserts a child. Returns the event that reports it.
    fn insert(
        &self,
        tx: &mut Tx<'_>,
        parent: &RunRow,
        defaults: &ChildDefaults,
        child: NewChild<'_>,
    ) -> Result<DurableEvent, EngineError> {
        let NewChild { request, ids: ChildIds { run: id, task }, origin, is_deferred } = child;
        let lane = self.lane();
        let child_request = ChildRequest {
            parent,
            call_id: &self.call_id,
            user: self.user.as_deref(),
            requested_by: defaults.requested_by.as_deref(),
            message: &request.task,
            agent: &parent.agent,
            session: SessionName::of_run(RunSession::Child, id),
            timeout: request.timeout,
            label: Some(format!("{}/{}", self.ancestors, agent_name(request))),
            lane: Some(&lane),
        };
        let command = child_request.into_task_request()?;
        let options = SpawnOptions {
            notify: ParentNotification::Never,
            cleanup: ChildCleanup::Keep,
            child_origin: Some(origin),
        };
        let encoded = EncodedMessage::new(&command, tx.now())?;
        let new = NewTask {
            namespace: &defaults.namespace,
            ids: NewIds { run: id, task, ..NewIds::draw(tx, &command) },
            // The id of the run makes a repetition harmless, so the input needs no key.
            message: &IncomingMessage::new(&command, &encoded, /*key*/ ""),
            parent: Some(ParentRun {
                task: parent.task_id,
                run: parent.id,
                step: self.step,
                depth: parent.depth,
                resource_set: parent.resource_set.clone(),
                policy: defaults.ceiling.clone(),
                spawn: serde_json::to_string(&options)?,
                sibling: Some(SiblingPosition { index: request.index, is_deferred }),
            }),
        };
        let agent = TaskAgent { revision: &defaults.revision, class: &defaults.class };
        submit::insert_task(tx, &new, &agent, /*session*/ None)?;
        Ok(DurableEvent::ChildStarted(durable::ChildStarted::OfCall {
            run: id,
            task,
            agent: agent_name(request).to_owned(),
            call_id: self.call_id.clone(),
            index: request.index,
            step: self.step,
        }))
    }

    /// Returns how many more children may start now.
    fn free_slots(&self, tx: &mut Tx<'_>) -> Result<usize, EngineError> {
        let Some(concurrency) = self.concurrency else { return Ok(usize::MAX) };
        // If a child is deferred, no slot is free.
        if run::next_deferred_child(tx, self.lease.run, self.step)?.is_some() {
            return Ok(0);
        }
        let running = run::live_of_step(tx, self.lease.run, self.step)?;
        Ok(concurrency.saturating_sub(usize::try_from(running).unwrap_or(usize::MAX)))
    }

    /// Reads the agent revision of the parent. A child may never do more than its parent.
    fn defaults(&self, tx: &mut Tx<'_>, parent: &RunRow) -> Result<ChildDefaults, EngineError> {
        let namespace = parent.namespace()?;
        let row = agent::get(tx, &parent.namespace, &parent.agent, parent.agent_revision)?;
        let missing = || EngineError::not_found("agent", &parent.agent);
        let revision = AgentRevision::from_row(row.ok_or_else(missing)?)?;
        let ceiling = parent.execution_policy()?;
        let own = revision.policy(&[], Some(&ceiling))?;
        let class = ClassAssignment::new(tx, &namespace, &revision, Some(&self.lane()), &own)?;
        let requested_by = restore::requester(tx, parent)?;
        Ok(ChildDefaults { namespace, revision, class, ceiling, requested_by })
    }

    /// Returns the lane of the children. A parked parent's class must keep slots for them, so each depth has its own
    /// lane.
    fn lane(&self) -> String {
        format!("below-{}", self.depth + 1)
    }

    /// Returns the number of children of this run that have a label. 0 if no request of this batch needs one.
    fn count_labels(&self, tx: &mut Tx<'_>) -> Result<usize, EngineError> {
        if self.requests.iter().all(|request| request.lifetime == ChildLifetime::Call) {
            return Ok(0);
        }
        let mut labels = 0;
        for child in run::children(tx, self.lease.run)? {
            labels += usize::from(
                ChildOrigin::of(&child)?.is_some_and(|child_origin| child_origin.label.is_some()),
            );
        }
        Ok(labels)
    }

    /// Returns the origin of the child of a request. Counts `labels` up if the child gets a label.
    fn child_origin(&self, request: &SpawnRequest, labels: &mut usize) -> ChildOrigin {
        // A member of a team has its own name.
        let labelled = request.lifetime != ChildLifetime::Call && request.member().is_none();
        let label = labelled.then(|| {
            *labels += 1;
            format!("{LABEL_PREFIX}{labels}")
        });
        ChildOrigin {
            parent: self.lease.run,
            agent_path: self.agent_path.iter().chain(&*request.path).cloned().collect(),
            ancestors: self.ancestors.clone(),
            agent: agent_name(request).to_owned(),
            depth: self.depth + 1,
            depth_max: self.depth_max,
            call_id: self.call_id.clone(),
            index: request.index,
            label,
            life: request.lifetime,
            max_turns: request.max_turns,
            traceparent: self.traceparent.clone(),
            has_deferred_siblings: self
                .concurrency
                .is_some_and(|concurrency| self.requests.len() > concurrency),
        }
    }
}

/// Values that the children of one call share.
struct ChildDefaults {
    namespace: Namespace,
    revision: AgentRevision,
    class: ClassAssignment,
    /// Policy of the parent.
    ceiling: ExecutionPolicy,
    /// Principal that requested the task of the parent.
    requested_by: Option<String>,
}

/// A child to insert.
struct NewChild<'a> {
    request: &'a SpawnRequest,
    ids: ChildIds,
    origin: ChildOrigin,
    /// True if another child must end before this one may start.
    is_deferred: bool,
}

/// Returns the name of the agent of a request.
fn agent_name(request: &SpawnRequest) -> &str {
    request.path.last().map(AgentPathSegment::agent).unwrap_or_default()
}

/// Makes the next deferred child of the same call ready, because one of its siblings has ended.
pub(super) fn start_next_deferred_child(
    tx: &mut Tx<'_>,
    ended: &RunRow,
) -> Result<(), EngineError> {
    let (Some(parent), Some(step)) = (ended.parent_run_id, ended.parent_step) else {
        return Ok(());
    };
    if ended.is_deferred() {
        // The ended child had not started, so it frees no slot.
        return Ok(());
    }
    match run::next_deferred_child(tx, parent, step)? {
        Some(next) => queue::release_deferred(tx, ended, next),
        None => Ok(()),
    }
}
