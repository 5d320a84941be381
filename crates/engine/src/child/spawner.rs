//! Children of a durable run, for the tools of its agent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use provost_agent::subagent::{
    AgentPathSegment, ChildFuture, ChildReport, ChildSpawner, ChildStatus, SpawnRequest,
    SpawnedChild, WaitOptions,
};
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::{EffectKey, OutcomeCode};
use provost_core::{AgentUsage, Env, LimitReached, Money, RunId, Usage};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::work::run::{self, ChildRunRow, RunRow};
use provost_tool::{ToolContext, ToolError};
use serde::Deserialize;

use super::{ChildToolContext, wait};
use crate::attempt::restore::{self, ReplayFrom};
use crate::child::subagent::{ChildName, ChildOrigin, ExistingChild, SpawnBatch};
use crate::error::EngineError;
use crate::journal::JournalState;
use crate::run::cancel;
use crate::run::settle::lock_leased_run;

/// Children that one transaction creates. The first ones start while the others are created, and other writers do not
/// wait long.
const SPAWN_BATCH_MAX: usize = 128;

/// Starts and ends the children of a run as durable runs.
pub(crate) struct DurableChildSpawner {
    context: ChildToolContext,
    /// Path from the agent of the revision to the agent of this run.
    agent_path: Vec<AgentPathSegment>,
    /// Reports of finished children that were read for the next request of the same call.
    finished_children: Mutex<HashMap<RunId, ChildReport>>,
    /// Call that created children last, and their runs. If that call waits for them, it need not check first whether
    /// they have ended.
    last_batch: Mutex<Option<(EffectKey, HashSet<RunId>)>>,
}

impl DurableChildSpawner {
    /// Creates the spawner of an attempt. `child_origin` is the origin of the run itself.
    pub(crate) fn new(context: ChildToolContext, child_origin: Option<&ChildOrigin>) -> Self {
        let agent_path =
            child_origin.map(|child_origin| child_origin.agent_path().to_vec()).unwrap_or_default();
        Self {
            context,
            agent_path,
            finished_children: Mutex::default(),
            last_batch: Mutex::default(),
        }
    }

    /// Creates the children of a call in batches, each in a transaction. A repeated call returns the existing ones.
    async fn start_children(
        &self,
        cx: &ToolContext,
        requests: Vec<SpawnRequest>,
        concurrency: Option<usize>,
    ) -> Result<Vec<SpawnedChild>, ToolError> {
        let context = &self.context;
        let step = context.journal.step_of(cx.effect_key()).ok_or_else(|| {
            ToolError::failed("another agent can be started only from a durable run")
        })?;
        let batch = Arc::new(SpawnBatch {
            lease: Arc::clone(&context.lease),
            key: cx.effect_key().clone(),
            call_id: cx.call_id().to_owned(),
            user: context.journal.user(),
            ancestors: cx.agent().to_owned(),
            depth: cx.depth(),
            depth_max: cx.depth_max(),
            agent_path: self.agent_path.clone(),
            step,
            traceparent: provost_agent::trace::current_traceparent(),
            requests,
            concurrency,
        });
        let known = {
            let (batch, env) = (Arc::clone(&batch), context.env.clone());
            context.store.read(move |tx| match batch.known(tx)? {
                Some(known) => reports(tx, known, &env).map(Some),
                None => Ok::<_, EngineError>(None),
            })
        };
        if let Some(known) = known.await? {
            let started = known.iter().map(ChildReport::started).collect();
            let finished_children = known.into_iter().filter(|report| report.status.is_finished());
            self.finished_children
                .lock()
                .extend(finished_children.map(|report| (report.run, report)));
            return Ok(started);
        }
        let mut last_batch = Vec::with_capacity(batch.requests.len());
        while last_batch.len() < batch.requests.len() {
            let requests =
                last_batch.len()..batch.requests.len().min(last_batch.len() + SPAWN_BATCH_MAX);
            let batch = Arc::clone(&batch);
            let created = context.store.write(move |tx| batch.create(tx, requests.clone()));
            last_batch.extend(created.await?);
        }
        failpoint!("child.started");
        let runs = last_batch.iter().map(|child| child.run).collect();
        *self.last_batch.lock() = Some((cx.effect_key().clone(), runs));
        Ok(last_batch)
    }

    /// Returns true if this call has just created all of these runs. Returns it only once.
    fn is_last_batch(&self, cx: &ToolContext, runs: &[RunId]) -> bool {
        let last_batch = self.last_batch.lock().take();
        last_batch.is_some_and(|(call, last_batch)| {
            call == *cx.effect_key() && runs.iter().all(|run| last_batch.contains(run))
        })
    }

    /// Takes the reports that were read before, if all of these runs had finished then, otherwise returns `None`.
    fn take_finished(&self, runs: &[RunId]) -> Option<Vec<ChildReport>> {
        let mut finished_children = self.finished_children.lock();
        let is_whole = runs.iter().all(|run| finished_children.contains_key(run));
        let finished: Vec<_> =
            runs.iter().filter_map(|run| finished_children.remove(run)).collect();
        // A run that is named twice was found only once.
        (is_whole && finished.len() == runs.len()).then_some(finished)
    }

    /// Returns the reports about children of the run. Fails if one of the runs is no child of it.
    async fn child_reports(&self, runs: &[RunId]) -> Result<Vec<ChildReport>, EngineError> {
        if let Some(finished) = self.take_finished(runs) {
            return Ok(finished);
        }
        let (runs, lease, env) =
            (runs.to_vec(), Arc::clone(&self.context.lease), self.context.env.clone());
        let reports = self.context.store.read(move |tx| {
            let mut rows = Vec::with_capacity(runs.len());
            for id in runs {
                rows.push(existing_child(child_of(tx, lease.run, id)?)?);
            }
            reports(tx, rows, &env)
        });
        reports.await
    }
}

impl ChildSpawner for DurableChildSpawner {
    fn start<'a>(
        &'a self,
        cx: &'a ToolContext,
        requests: Vec<SpawnRequest>,
        concurrency: Option<usize>,
    ) -> ChildFuture<'a, Vec<SpawnedChild>> {
        self.start_children(cx, requests, concurrency).boxed()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a ToolContext,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> ChildFuture<'a, Vec<ChildReport>> {
        async move {
            if !self.is_last_batch(cx, &runs) {
                let reports = self.child_reports(&runs).await?;
                let finished_children =
                    reports.iter().filter(|report| report.status.is_finished()).count();
                if finished_children == runs.len() || (until.any && finished_children > 0) {
                    return Ok(reports);
                }
            }
            // Parks the run until then. If the children have ended meanwhile, it resumes at once. The call then runs
            // again.
            wait::wait_and_repeat(cx, runs.clone(), until.any, until.timeout)?;
            Ok(self.child_reports(&runs).await?)
        }
        .boxed()
    }

    fn background_tasks<'a>(&'a self, _cx: &'a ToolContext) -> ChildFuture<'a, Vec<ChildReport>> {
        async move {
            let (lease, env) = (Arc::clone(&self.context.lease), self.context.env.clone());
            let labelled = self.context.store.read(move |tx| {
                let mut labelled = Vec::new();
                for row in run::children(tx, lease.run)? {
                    if ChildOrigin::of(&row)?
                        .is_some_and(|child_origin| child_origin.label.is_some())
                    {
                        labelled.push(existing_child(row)?);
                    }
                }
                let mut all = reports(tx, labelled, &env)?;
                // `task-10` comes after `task-9`.
                all.sort_by_key(|report| {
                    let label = report.task_id.clone().unwrap_or_default();
                    (label.len(), label)
                });
                Ok::<_, EngineError>(all)
            });
            Ok(labelled.await?)
        }
        .boxed()
    }

    fn stop<'a>(&'a self, cx: &'a ToolContext, run: RunId) -> ChildFuture<'a, ChildReport> {
        async move {
            let lease = Arc::clone(&self.context.lease);
            let stopping = self.context.store.write(move |tx| {
                lock_leased_run(tx, &lease)?;
                child_of(tx, lease.run, run)?;
                if let Some(child) = provost_store::table::work::run::lock(tx, run)? {
                    cancel::cancel(tx, child, OutcomeCode::CancelledByParent)?;
                }
                Ok::<_, EngineError>(())
            });
            stopping.await?;
            let ended = self.wait(cx, vec![run], WaitOptions::default()).await?;
            ended.into_iter().next().ok_or_else(|| ToolError::failed("the child no longer exists"))
        }
        .boxed()
    }
}

/// Returns a child of a run. Fails if the run has no such child.
fn child_of(tx: &mut Tx<'_>, parent: RunId, id: RunId) -> Result<RunRow, EngineError> {
    let child = run::get(tx, id)?.filter(|child| child.parent_run_id == Some(parent));
    child.ok_or_else(|| EngineError::not_found("child of this run", id))
}

/// Fields of a child's stored result.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ChildAnswer {
    text: String,
    limit: Option<LimitReached>,
    usage: Usage,
    cost: Option<Money>,
    turns: u32,
    unpriced_calls: u32,
    agents: Vec<AgentUsage>,
}

/// Returns the run of a child together with its names.
fn existing_child(row: RunRow) -> Result<ExistingChild, EngineError> {
    let child = ChildRunRow::from(row);
    let name = ChildName::of(&child)?;
    Ok((child, name))
}

/// Creates the reports about children, in the same order.
fn reports(
    tx: &mut Tx<'_>,
    known: Vec<ExistingChild>,
    env: &Env,
) -> Result<Vec<ChildReport>, EngineError> {
    known.into_iter().map(|child| report(tx, child, env)).collect()
}

/// Creates the report about a child for its parent.
fn report(
    tx: &mut Tx<'_>,
    (row, name): ExistingChild,
    env: &Env,
) -> Result<ChildReport, EngineError> {
    let status = match row.status {
        RunStatus::Ok => ChildStatus::Completed,
        RunStatus::Cancelled => ChildStatus::Cancelled,
        RunStatus::Error | RunStatus::Timeout => ChildStatus::Failed,
        RunStatus::Accepted | RunStatus::Running => ChildStatus::Running,
    };
    let answer: ChildAnswer = match &row.result {
        Some(result) => serde_json::from_str(result)?,
        None => ChildAnswer::default(),
    };
    let used = match (&row.result, status.is_finished()) {
        (Some(_), _) if !answer.agents.is_empty() => answer.agents,
        (Some(_), _) => vec![AgentUsage {
            agent: name.path,
            turns: answer.turns,
            usage: answer.usage,
            cost: answer.cost,
            unpriced_calls: answer.unpriced_calls,
        }],
        // The journal contains the usage of a child that failed.
        (None, true) => {
            let mut journal = JournalState::new(env.clone());
            let run = run::get(tx, row.id)?;
            let run = run.ok_or_else(|| EngineError::not_found("run", row.id))?;
            let machine = restore::rebuild(tx, &run, None, ReplayFrom::Snapshot, &mut journal)?;
            machine.map(|machine| machine.agent_usage()).unwrap_or_default()
        }
        (None, false) => Vec::new(),
    };
    Ok(ChildReport {
        run: row.id,
        task_id: name.label,
        agent: name.agent,
        status,
        text: answer.text,
        error: row.detail.filter(|_| status.is_finished()),
        limit: answer.limit,
        used,
    })
}
