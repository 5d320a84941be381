//! Runs children as tokio tasks of this process.
//!
//! Every child runs in its own task. A semaphore of the call limits how many of its children run at the same time. The
//! table holds the state of every child and wakes the callers that wait for a change.

mod job;
mod suspended;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::{Mutex, MutexGuard};
use provost_core::{AgentUsage, RunId};
use provost_tool::{ToolContext, ToolError};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::job::{ChildJob, ChildTemplate};
use self::suspended::SuspendedChild;
use self::table::{ChildKey, ChildRecord, ChildTable};
use super::{
    ChildFuture, ChildLifetime, ChildReport, ChildSpawner, SpawnRequest, SpawnedChild, WaitOptions,
};
use crate::approval::ApprovalMode;
use crate::driver::DriverContext;
use crate::outcome::SuspendedRun;
use crate::watched::Watched;

/// Maximum time that the end of a run waits for cancelled children.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the children of one run in this process and waits for them. Clones share the children.
#[derive(Clone, Default)]
pub(crate) struct LocalSpawner {
    /// Weak, because a detached child may outlive the run. A handoff replaces it.
    parent: Arc<Mutex<Weak<DriverContext>>>,
    table: Arc<Watched<ChildTable>>,
}

/// The call that starts children, with its parent and its slots.
struct SpawningCall<'a> {
    cx: &'a ToolContext,
    parent: Arc<DriverContext>,
    /// One permit for each child that may run at the same time.
    slots: Arc<Semaphore>,
}

impl LocalSpawner {
    /// Sets the context of the active agent.
    pub(crate) fn set_parent(&self, parent: Weak<DriverContext>) {
        *self.parent.lock() = parent;
    }

    /// Returns the context of the active agent. Returns an error if the run has ended.
    fn parent(&self) -> Result<Arc<DriverContext>, ToolError> {
        self.parent.lock().upgrade().ok_or_else(|| ToolError::failed("the run has ended"))
    }

    fn table(&self) -> MutexGuard<'_, ChildTable> {
        self.table.lock()
    }

    /// Cancels the children that end with the run, and waits until they have ended. After a timeout, logs a warning and
    /// abandons them.
    pub(crate) async fn close(&self) {
        self.table().cancel_bound();
        let ended = self.table.wait(|table| table.bound_are_settled().then_some(()));
        if tokio::time::timeout(CLOSE_TIMEOUT, ended).await.is_err() {
            tracing::warn!("a child of a run did not end after it was cancelled");
            self.table().abandon_bound();
        }
    }

    /// Removes and returns the usage of the children that ended since the last call.
    pub(crate) fn take_usage(&self) -> Vec<(RunId, Vec<AgentUsage>)> {
        self.table().take_usage()
    }

    /// Starts the children that this call has not started before.
    fn spawn_all(
        &self,
        call: &SpawningCall<'_>,
        requests: Vec<SpawnRequest>,
        mut suspended: HashMap<u32, SuspendedChild>,
    ) -> Result<Vec<SpawnedChild>, ToolError> {
        let spawn = |request: SpawnRequest| {
            let saved = suspended.remove(&request.index);
            self.spawn(call, request, saved)
        };
        requests.into_iter().map(spawn).collect()
    }

    /// Starts a child, unless this call has started it before. A stored child that had ended is not run again.
    fn spawn(
        &self,
        call: &SpawningCall<'_>,
        request: SpawnRequest,
        saved: Option<SuspendedChild>,
    ) -> Result<SpawnedChild, ToolError> {
        let key = ChildKey { effect: call.cx.effect_key().clone(), index: request.index };
        if let Some(known) = self.table().find_by_key(&key) {
            return Ok(known.started());
        }
        let suspended = match saved {
            Some(SuspendedChild::Finished(report)) => {
                return Ok(self.table().insert(ChildRecord::finished(
                    key,
                    request.lifetime,
                    report,
                )));
            }
            Some(SuspendedChild::AwaitingApproval(suspended)) => Some(suspended),
            None => None,
        };
        let template = ChildTemplate::resolve(&call.parent, call.cx, &request.path)?;
        let cancel = match request.lifetime {
            ChildLifetime::Call => call.cx.cancelled().child_token(),
            ChildLifetime::Run => call.parent.control.cancel.child_token(),
            ChildLifetime::Detached => CancellationToken::new(),
        };
        let run = suspended.as_ref().map_or_else(|| call.parent.env.id(), SuspendedRun::run_id);
        let started = {
            let mut table = self.table();
            let is_member = request.member().is_some();
            let task_id = table.next_task_id(request.lifetime, is_member);
            let agent = Arc::clone(&template.definition.name);
            let started = SpawnedChild { run, task_id, agent };
            table.insert(ChildRecord::running(key, request.lifetime, cancel.clone(), started))
        };
        let parent = Arc::clone(&call.parent);
        let task_id = started.task_id.clone();
        let job = ChildJob { parent, template, request, suspended, run, task_id, cancel };
        self.run_in_task(Arc::clone(&call.slots), job);
        Ok(started)
    }

    /// Runs a child in its own task as soon as a slot is free, and records its outcome.
    fn run_in_task(&self, slots: Arc<Semaphore>, job: ChildJob) {
        let spawner = self.clone();
        let task = async move {
            // The semaphore is never closed.
            let _slot = slots.acquire().await.ok();
            let run = job.run;
            let outcome = job.outcome().await;
            spawner.table.update(|table| table.finish(run, outcome));
        };
        tokio::spawn(Box::pin(task.in_current_span()));
    }

    /// Waits until the children are settled or the timeout passes, requests their approvals, and returns their reports.
    async fn wait_for(
        &self,
        cx: &ToolContext,
        runs: &[RunId],
        until: WaitOptions,
    ) -> Result<Vec<ChildReport>, ToolError> {
        self.table().check_known(runs)?;
        let settled = self.table.wait(|table| table.are_settled(runs, until.any).then_some(()));
        match until.timeout {
            // A child that has not ended by then keeps running.
            Some(timeout) => drop(tokio::time::timeout(timeout, settled).await.is_ok()),
            None => settled.await,
        }
        self.request_approvals(cx, runs).await?;
        Ok(self.table().reports(runs))
    }
}

impl ChildSpawner for LocalSpawner {
    fn start<'a>(
        &'a self,
        cx: &'a ToolContext,
        requests: Vec<SpawnRequest>,
        max_parallel: Option<usize>,
    ) -> ChildFuture<'a, Vec<SpawnedChild>> {
        async move {
            let suspended = self.take_suspended(cx, &requests).await?;
            let permits = max_parallel.unwrap_or(Semaphore::MAX_PERMITS);
            let slots = Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
            let call = SpawningCall { cx, parent: self.parent()?, slots };
            self.spawn_all(&call, requests, suspended)
        }
        .boxed()
    }

    fn wait<'a>(
        &'a self,
        cx: &'a ToolContext,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> ChildFuture<'a, Vec<ChildReport>> {
        async move { self.wait_for(cx, &runs, until).await }.boxed()
    }

    fn background_tasks<'a>(&'a self, _cx: &'a ToolContext) -> ChildFuture<'a, Vec<ChildReport>> {
        let reports = self.table().background_tasks().map(|child| child.report.clone()).collect();
        std::future::ready(Ok(reports)).boxed()
    }

    fn stop<'a>(&'a self, cx: &'a ToolContext, run: RunId) -> ChildFuture<'a, ChildReport> {
        async move {
            self.table().cancel(run);
            let ended = self.wait_for(cx, &[run], WaitOptions::default()).await?;
            ended.into_iter().next().ok_or_else(|| ToolError::failed("the task no longer exists"))
        }
        .boxed()
    }
}

/// Returns the approval mode of a child: the mode of its own agent, or else the mode of the parent run.
pub(crate) fn child_approval_mode(
    own: Option<&ApprovalMode>,
    parent: &ApprovalMode,
    may_suspend: bool,
) -> ApprovalMode {
    match (own.unwrap_or(parent), parent) {
        // No call waits for this child, so no call can be suspended with it.
        (ApprovalMode::Suspend, _) if !may_suspend => ApprovalMode::Deny,
        // A child cannot be suspended without the parent run, whose approvals are decided while it runs.
        (ApprovalMode::Suspend, parent) => parent.clone(),
        (other, _) => other.clone(),
    }
}
