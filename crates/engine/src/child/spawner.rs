//! The children of a durable run, as the tools of its agent reach them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use provost_agent::subagent::{
    AgentPathSegment, ChildFuture, ChildReport, ChildSpawner, ChildStatus, SpawnRequest,
    SpawnedChild, WaitOptions,
};
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::{EffectKey, OutcomeCode};
use provost_core::{AgentUsage, Env, LimitReached, Money, RunId, Usage};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::work::run::{self, ChildRow, RunRow};
use provost_tool::{ToolCx, ToolError};
use serde::Deserialize;

use super::{Family, wait};
use crate::attempt::restore::{self, ReplayFrom};
use crate::child::subagent::{Birth, Births, KnownChild, Named};
use crate::error::EngineError;
use crate::journal::JournalState;
use crate::run::cancel;
use crate::run::lifecycle::word;
use crate::run::settle::held;

/// Children that one transaction makes: the first ones begin while the others are made, and nobody else waits long.
const BORN_TOGETHER: usize = 128;

/// Starts and ends the children of a run as runs of their own.
pub(crate) struct EngineChildren {
    family: Family,
    /// The way from the agent of the profile to the run's own.
    place: Vec<AgentPathSegment>,
    /// What was read of children that are over, for the call that asks for it next.
    over: Mutex<HashMap<RunId, ChildReport>>,
    /// The call that made children last, and those: if it waits for them, it is not worth a look whether all of them are over.
    made: Mutex<Option<(EffectKey, HashSet<RunId>)>>,
}

impl EngineChildren {
    pub(crate) fn new(family: Family, birth: Option<&Birth>) -> Self {
        let place = birth.map(|birth| birth.place().to_vec()).unwrap_or_default();
        Self { family, place, over: Mutex::default(), made: Mutex::default() }
    }

    async fn begin(
        &self,
        cx: &ToolCx,
        asks: Vec<SpawnRequest>,
        at_once: Option<usize>,
    ) -> Result<Vec<SpawnedChild>, ToolError> {
        let family = &self.family;
        let step = family.journal.step_of(cx.effect_key()).ok_or_else(|| {
            ToolError::failed("this call is in no journal: it cannot start another agent")
        })?;
        let births = Arc::new(Births {
            lease: Arc::clone(&family.lease),
            key: cx.effect_key().clone(),
            call_id: cx.call_id().to_owned(),
            user: family.journal.user(),
            above: cx.agent().to_owned(),
            depth: cx.depth(),
            depth_max: cx.depth_max(),
            place: self.place.clone(),
            step,
            traceparent: provost_agent::trace::current(),
            asks,
            at_once,
        });
        let known = {
            let (births, env) = (Arc::clone(&births), family.env.clone());
            family.store.read(move |tx| match births.known(tx)? {
                Some(known) => reports(tx, known, &env).map(Some),
                None => Ok::<_, EngineError>(None),
            })
        };
        if let Some(known) = known.await? {
            let started = known.iter().map(ChildReport::started).collect();
            let over = known.into_iter().filter(|report| report.status.is_finished());
            self.over().extend(over.map(|report| (report.run, report)));
            return Ok(started);
        }
        let mut made = Vec::with_capacity(births.asks.len());
        while made.len() < births.asks.len() {
            let asks = made.len()..births.asks.len().min(made.len() + BORN_TOGETHER);
            let births = Arc::clone(&births);
            let born = family.store.write(move |tx| births.create(tx, asks.clone()));
            made.extend(born.await?);
        }
        failpoint!("child.started");
        let runs = made.iter().map(|child| child.run).collect();
        *self.made() = Some((cx.effect_key().clone(), runs));
        Ok(made)
    }

    fn over(&self) -> MutexGuard<'_, HashMap<RunId, ChildReport>> {
        // Nothing that can fail happens under this lock.
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, Option<(EffectKey, HashSet<RunId>)>> {
        // Nothing that can fail happens under this lock.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the call has made all of these a moment ago, and has not asked for them yet.
    fn are_new(&self, cx: &ToolCx, runs: &[RunId]) -> bool {
        let made = self.made().take();
        made.is_some_and(|(call, made)| {
            call == *cx.effect_key() && runs.iter().all(|run| made.contains(run))
        })
    }

    /// What was read a moment ago, if all of them were over then; it is given out once.
    fn seen(&self, runs: &[RunId]) -> Option<Vec<ChildReport>> {
        let mut over = self.over();
        let is_whole = runs.iter().all(|run| over.contains_key(run));
        let seen: Vec<_> = runs.iter().filter_map(|run| over.remove(run)).collect();
        // One that is named twice was there for the first time only.
        (is_whole && seen.len() == runs.len()).then_some(seen)
    }

    async fn look(&self, runs: &[RunId]) -> Result<Vec<ChildReport>, EngineError> {
        if let Some(seen) = self.seen(runs) {
            return Ok(seen);
        }
        let (runs, lease, env) =
            (runs.to_vec(), Arc::clone(&self.family.lease), self.family.env.clone());
        let looked = self.family.store.read(move |tx| {
            let mut rows = Vec::with_capacity(runs.len());
            for id in runs {
                rows.push(named(child_of(tx, lease.run, id)?)?);
            }
            reports(tx, rows, &env)
        });
        looked.await
    }
}

impl ChildSpawner for EngineChildren {
    fn start<'a>(
        &'a self,
        cx: &'a ToolCx,
        asks: Vec<SpawnRequest>,
        at_once: Option<usize>,
    ) -> ChildFuture<'a, Vec<SpawnedChild>> {
        self.begin(cx, asks, at_once).boxed()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a ToolCx,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> ChildFuture<'a, Vec<ChildReport>> {
        async move {
            if !self.are_new(cx, &runs) {
                let looked = self.look(&runs).await?;
                let over = looked.iter().filter(|report| report.status.is_finished()).count();
                if over == runs.len() || (until.any && over > 0) {
                    return Ok(looked);
                }
            }
            // The run is parked until then, which is no time if they have ended meanwhile; this call is made again.
            wait::wait_again(cx, runs.clone(), until.any, until.timeout)?;
            Ok(self.look(&runs).await?)
        }
        .boxed()
    }

    fn background_tasks<'a>(&'a self, _cx: &'a ToolCx) -> ChildFuture<'a, Vec<ChildReport>> {
        async move {
            let (lease, env) = (Arc::clone(&self.family.lease), self.family.env.clone());
            let labelled = self.family.store.read(move |tx| {
                let mut labelled = Vec::new();
                for row in run::children(tx, lease.run)? {
                    if Birth::of(&row)?.is_some_and(|birth| birth.label.is_some()) {
                        labelled.push(named(row)?);
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

    fn stop<'a>(&'a self, cx: &'a ToolCx, run: RunId) -> ChildFuture<'a, ChildReport> {
        async move {
            let lease = Arc::clone(&self.family.lease);
            let stopping = self.family.store.write(move |tx| {
                held(tx, &lease)?;
                child_of(tx, lease.run, run)?;
                if let Some(child) = provost_store::table::work::run::lock(tx, run)? {
                    cancel::cancel(tx, child, OutcomeCode::CancelledByParent)?;
                }
                Ok::<_, EngineError>(())
            });
            stopping.await?;
            let ended = self.wait(cx, vec![run], WaitOptions::default()).await?;
            ended.into_iter().next().ok_or_else(|| ToolError::failed("it is gone"))
        }
        .boxed()
    }
}

/// A child of a run.
fn child_of(tx: &mut Tx<'_>, parent: RunId, id: RunId) -> Result<RunRow, EngineError> {
    let child = run::get(tx, id)?.filter(|child| child.parent_run_id == Some(parent));
    child.ok_or_else(|| EngineError::not_found("child of this run", id))
}

/// What is read of a child's result.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    text: String,
    limit: Option<LimitReached>,
    usage: Usage,
    cost: Option<Money>,
    turns: u32,
    unpriced_calls: u32,
    agents: Vec<AgentUsage>,
}

fn named(row: RunRow) -> Result<KnownChild, EngineError> {
    let child = ChildRow::from(row);
    let named = Named::of(&child)?;
    Ok((child, named))
}

fn reports(
    tx: &mut Tx<'_>,
    known: Vec<KnownChild>,
    env: &Env,
) -> Result<Vec<ChildReport>, EngineError> {
    known.into_iter().map(|child| report(tx, child, env)).collect()
}

/// A child as its parent sees it.
fn report(
    tx: &mut Tx<'_>,
    (row, named): KnownChild,
    env: &Env,
) -> Result<ChildReport, EngineError> {
    let status = match word::<RunStatus>(&row.status)? {
        RunStatus::Ok => ChildStatus::Completed,
        RunStatus::Cancelled => ChildStatus::Cancelled,
        RunStatus::Error | RunStatus::Timeout => ChildStatus::Failed,
        RunStatus::Accepted | RunStatus::Running => ChildStatus::Running,
    };
    let answer: Answer = match &row.result {
        Some(result) => serde_json::from_str(result)?,
        None => Answer::default(),
    };
    let used = match (&row.result, status.is_finished()) {
        (Some(_), _) if !answer.agents.is_empty() => answer.agents,
        (Some(_), _) => vec![AgentUsage {
            agent: named.path,
            turns: answer.turns,
            usage: answer.usage,
            cost: answer.cost,
            unpriced_calls: answer.unpriced_calls,
        }],
        // What it used before it failed is in its journal.
        (None, true) => {
            let mut journal = JournalState::new(env.clone());
            let whole = run::get(tx, row.id)?;
            let whole = whole.ok_or_else(|| EngineError::not_found("run", row.id))?;
            let machine = restore::rebuild(tx, &whole, None, ReplayFrom::Snapshot, &mut journal)?;
            machine.map(|machine| machine.agent_usage()).unwrap_or_default()
        }
        (None, false) => Vec::new(),
    };
    Ok(ChildReport {
        run: row.id,
        task_id: named.label,
        agent: named.agent,
        status,
        text: answer.text,
        error: row.detail.filter(|_| status.is_finished()),
        limit: answer.limit,
        used,
    })
}
