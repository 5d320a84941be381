//! The state of every child of a run, as a value without I/O.

use std::collections::HashMap;

use provost_core::recovery::EffectKey;
use provost_core::{AgentUsage, RunId};
use provost_tool::ToolError;
use tokio_util::sync::CancellationToken;

use super::job::{ChildOutcome, FinishedChild};
use crate::outcome::SuspendedRun;
use crate::subagent::{ChildLifetime, ChildReport, ChildStatus, SpawnedChild, TASK_ID_PREFIX};

/// The call that requested a child, and the child's index in that call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ChildKey {
    pub(super) effect: EffectKey,
    pub(super) index: u32,
}

/// One child.
pub(super) struct ChildRecord {
    pub(super) key: ChildKey,
    lifetime: ChildLifetime,
    cancel: CancellationToken,
    /// The report. Its usage is always empty: [`ChildTable::take_usage`] returns it.
    pub(super) report: ChildReport,
    /// The suspended run of a child that waits for an approval.
    pub(super) suspended: Option<Box<SuspendedRun>>,
    /// True if the end of the run no longer waits for the child.
    is_abandoned: bool,
}

impl ChildRecord {
    /// Creates the record of a child that starts.
    pub(super) fn running(
        key: ChildKey,
        lifetime: ChildLifetime,
        cancel: CancellationToken,
        started: SpawnedChild,
    ) -> Self {
        let SpawnedChild { run, task_id, agent } = started;
        let report = ChildReport {
            run,
            task_id,
            agent,
            status: ChildStatus::Running,
            text: String::new(),
            error: None,
            limit: None,
            used: Vec::new(),
        };
        Self { key, lifetime, cancel, report, suspended: None, is_abandoned: false }
    }

    /// Creates the record of a child that ended before the run was suspended.
    pub(super) fn finished(key: ChildKey, lifetime: ChildLifetime, report: ChildReport) -> Self {
        let cancel = CancellationToken::new();
        Self { key, lifetime, cancel, report, suspended: None, is_abandoned: false }
    }

    pub(super) fn started(&self) -> SpawnedChild {
        self.report.started()
    }

    /// Returns true if the child ends with the run at the latest.
    fn is_bound(&self) -> bool {
        self.lifetime != ChildLifetime::Detached
    }

    fn has_ended(&self) -> bool {
        self.report.status.is_finished()
    }

    /// Returns true if the child does not change any more in this process.
    fn is_settled(&self) -> bool {
        self.has_ended() || self.suspended.is_some() || self.is_abandoned
    }
}

/// The children of a run, in the order in which they were started.
#[derive(Default)]
pub(super) struct ChildTable {
    children: Vec<ChildRecord>,
    by_run: HashMap<RunId, usize>,
    by_key: HashMap<ChildKey, usize>,
    /// Usage of ended children that the run has not counted yet.
    used: Vec<(RunId, Vec<AgentUsage>)>,
}

impl ChildTable {
    /// Adds a child, and returns it as its call receives it.
    pub(super) fn insert(&mut self, mut child: ChildRecord) -> SpawnedChild {
        let started = child.started();
        self.add_used(started.run, std::mem::take(&mut child.report.used));
        self.by_run.insert(started.run, self.children.len());
        self.by_key.insert(child.key.clone(), self.children.len());
        self.children.push(child);
        started
    }

    /// Returns the id of the next background task. `None` for children that end with their call, and for team members,
    /// which have names.
    pub(super) fn next_task_id(&self, lifetime: ChildLifetime, is_member: bool) -> Option<String> {
        let has_task_id = lifetime != ChildLifetime::Call && !is_member;
        has_task_id.then(|| format!("{TASK_ID_PREFIX}{}", self.background_tasks().count() + 1))
    }

    /// Returns the child that this call started. `None` if it has not started it.
    pub(super) fn find_by_key(&self, key: &ChildKey) -> Option<&ChildRecord> {
        self.children.get(*self.by_key.get(key)?)
    }

    /// Returns the child with this run. `None` if there is none.
    fn get(&self, run: RunId) -> Option<&ChildRecord> {
        self.children.get(*self.by_run.get(&run)?)
    }

    pub(super) fn background_tasks(&self) -> impl Iterator<Item = &ChildRecord> {
        self.children.iter().filter(|child| child.report.task_id.is_some())
    }

    pub(super) fn of_runs(&self, runs: &[RunId]) -> impl Iterator<Item = &ChildRecord> {
        runs.iter().filter_map(|run| self.get(*run))
    }

    /// Returns an error if a run is not a child of this run.
    pub(super) fn check_known(&self, runs: &[RunId]) -> Result<(), ToolError> {
        match runs.iter().find(|run| !self.by_run.contains_key(*run)) {
            None => Ok(()),
            Some(run) => Err(ToolError::Failed(format!("{run} is not a child of this run"))),
        }
    }

    pub(super) fn reports(&self, runs: &[RunId]) -> Vec<ChildReport> {
        self.of_runs(runs).map(|child| child.report.clone()).collect()
    }

    /// Returns true if the wait is over: all children are settled or, if `any` is true, one has ended.
    pub(super) fn are_settled(&self, runs: &[RunId], any: bool) -> bool {
        (any && self.of_runs(runs).any(ChildRecord::has_ended))
            || self.of_runs(runs).all(ChildRecord::is_settled)
    }

    /// Records the outcome of a child. Ignored for an unknown run.
    pub(super) fn finish(&mut self, run: RunId, outcome: ChildOutcome) {
        let Some(child) = self.by_run.get(&run).and_then(|index| self.children.get_mut(*index))
        else {
            return;
        };
        match outcome {
            ChildOutcome::Suspended(suspended) => child.suspended = Some(suspended),
            ChildOutcome::Finished(FinishedChild { status, text, error, limit, used }) => {
                child.report = ChildReport { status, text, error, limit, ..child.report.clone() };
                self.add_used(run, used);
            }
        }
    }

    fn add_used(&mut self, run: RunId, used: Vec<AgentUsage>) {
        if !used.is_empty() {
            self.used.push((run, used));
        }
    }

    pub(super) fn take_usage(&mut self) -> Vec<(RunId, Vec<AgentUsage>)> {
        std::mem::take(&mut self.used)
    }

    /// Cancels a child. Ignored for an unknown run.
    pub(super) fn cancel(&self, run: RunId) {
        if let Some(child) = self.get(run) {
            child.cancel.cancel();
        }
    }

    fn bound(&self) -> impl Iterator<Item = &ChildRecord> {
        self.children.iter().filter(|child| child.is_bound())
    }

    /// Cancels the children that end with the run.
    pub(super) fn cancel_bound(&self) {
        self.bound().filter(|child| !child.is_settled()).for_each(|child| child.cancel.cancel());
    }

    pub(super) fn bound_are_settled(&self) -> bool {
        self.bound().all(ChildRecord::is_settled)
    }

    /// Marks the children that end with the run as abandoned, so that no caller waits for them.
    pub(super) fn abandon_bound(&mut self) {
        let bound = self.children.iter_mut().filter(|child| child.is_bound());
        bound.for_each(|child| child.is_abandoned = true);
    }
}
