//! The children of a run, where its tools find them.

use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::{AgentUsage, RunId};
use provost_tool::{ToolCx, ToolError};

use super::{AgentPathSegment, ChildReport, ChildSpawner, SpawnRequest, SpawnedChild, WaitOptions};

/// What children that are over have used.
type Used = Vec<(RunId, Vec<AgentUsage>)>;

/// The children of one run; notes what they used, for the run's own counts.
#[derive(Clone)]
pub(crate) struct ChildSpawnerHandle {
    children: Arc<dyn ChildSpawner>,
    used: Arc<Mutex<Used>>,
    /// The way from the run's own agent to the one that has the conversation.
    hops: Arc<[AgentPathSegment]>,
}

impl ChildSpawnerHandle {
    pub(crate) fn new(children: Arc<dyn ChildSpawner>) -> Self {
        Self { children, used: Arc::default(), hops: Arc::default() }
    }

    /// The same, for an agent that was given the conversation.
    pub(crate) fn after(self, hops: Vec<AgentPathSegment>) -> Self {
        Self { hops: hops.into(), ..self }
    }

    pub(crate) async fn start(
        &self,
        cx: &ToolCx,
        mut asks: Vec<SpawnRequest>,
        at_once: Option<usize>,
    ) -> Result<Vec<SpawnedChild>, ToolError> {
        if !self.hops.is_empty() {
            for ask in &mut asks {
                ask.path = self.hops.iter().chain(&*ask.path).cloned().collect();
            }
        }
        self.children.start(cx, asks, at_once).await
    }

    pub(crate) async fn wait(
        &self,
        cx: &ToolCx,
        runs: Vec<RunId>,
        until: WaitOptions,
    ) -> Result<Vec<ChildReport>, ToolError> {
        let mut reports = self.children.wait(cx, runs, until).await?;
        self.note(&mut reports);
        Ok(reports)
    }

    pub(crate) async fn background_tasks(
        &self,
        cx: &ToolCx,
    ) -> Result<Vec<ChildReport>, ToolError> {
        let mut reports = self.children.background_tasks(cx).await?;
        self.note(&mut reports);
        Ok(reports)
    }

    pub(crate) async fn stop(&self, cx: &ToolCx, run: RunId) -> Result<ChildReport, ToolError> {
        let mut report = self.children.stop(cx, run).await?;
        self.note(std::slice::from_mut(&mut report));
        Ok(report)
    }

    /// Takes what those that are over used out of their reports, for the run's own counts.
    fn note(&self, reports: &mut [ChildReport]) {
        let over = reports.iter_mut().filter(|report| report.status.is_finished());
        let over = over.filter(|report| !report.used.is_empty());
        let used = over.map(|report| (report.run, std::mem::take(&mut report.used)));
        self.used.lock().extend(used);
    }

    /// What was noted since it was last asked.
    pub(crate) fn take_used(&self) -> Used {
        std::mem::take(&mut *self.used.lock())
    }
}
