//! The spawner of a run, as the run's tools see it.

use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::{AgentUsage, RunId};
use provost_tool::{ToolContext, ToolError};

use super::{AgentPathSegment, ChildReport, ChildSpawner, SpawnRequest, SpawnedChild, WaitOptions};

/// Usage of ended children.
type Used = Vec<(RunId, Vec<AgentUsage>)>;

/// The spawner of one run. It collects the usage of ended children for the totals of the run.
#[derive(Clone)]
pub(crate) struct ChildSpawnerHandle {
    spawner: Arc<dyn ChildSpawner>,
    used: Arc<Mutex<Used>>,
    /// Path from the agent of the run to the active agent, along handoffs.
    path: Arc<[AgentPathSegment]>,
}

impl ChildSpawnerHandle {
    pub(crate) fn new(spawner: Arc<dyn ChildSpawner>) -> Self {
        Self { spawner, used: Arc::default(), path: Arc::default() }
    }

    /// Returns the spawner for the target of handoffs.
    pub(crate) fn after_handoffs(self, path: Vec<AgentPathSegment>) -> Self {
        Self { path: path.into(), ..self }
    }

    pub(crate) async fn start(
        &self,
        cx: &ToolContext,
        mut requests: Vec<SpawnRequest>,
        max_parallel: Option<usize>,
    ) -> Result<Vec<SpawnedChild>, ToolError> {
        if !self.path.is_empty() {
            for request in &mut requests {
                request.path = self.path.iter().chain(&*request.path).cloned().collect();
            }
        }
        self.spawner.start(cx, requests, max_parallel).await
    }

    pub(crate) async fn wait(
        &self,
        cx: &ToolContext,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> Result<Vec<ChildReport>, ToolError> {
        let mut reports = self.spawner.wait(cx, runs, until).await?;
        self.collect_usage(&mut reports);
        Ok(reports)
    }

    pub(crate) async fn background_tasks(
        &self,
        cx: &ToolContext,
    ) -> Result<Vec<ChildReport>, ToolError> {
        let mut reports = self.spawner.background_tasks(cx).await?;
        self.collect_usage(&mut reports);
        Ok(reports)
    }

    pub(crate) async fn stop(
        &self,
        cx: &ToolContext,
        run: RunId,
    ) -> Result<ChildReport, ToolError> {
        let mut report = self.spawner.stop(cx, run).await?;
        self.collect_usage(std::slice::from_mut(&mut report));
        Ok(report)
    }

    /// Moves the usage of ended children from their reports to the totals.
    fn collect_usage(&self, reports: &mut [ChildReport]) {
        let ended = reports.iter_mut().filter(|report| report.status.is_finished());
        let ended = ended.filter(|report| !report.used.is_empty());
        let used = ended.map(|report| (report.run, std::mem::take(&mut report.used)));
        self.used.lock().extend(used);
    }

    /// Removes and returns the usage that was collected since the last call.
    pub(crate) fn take_usage(&self) -> Used {
        std::mem::take(&mut *self.used.lock())
    }
}
