//! One attempt's hold on a run.

use provost_core::lifecycle::RunKind;
use provost_core::{ExecutionId, RunId, TaskId, WorkerId};
use provost_store::table::work::session::SessionRef;

/// What a worker needs to write to a run it has claimed. Every write carries the epoch and fails once another counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
    /// What the run executes.
    pub kind: RunKind,
    /// The tenancy boundary.
    pub namespace: String,
    /// The session it writes to.
    pub session: String,
    /// The fencing token.
    pub epoch: u64,
    /// The number of the attempt.
    pub attempt: u64,
    /// Who works.
    pub worker: WorkerId,
    /// The place where this attempt runs.
    pub execution: ExecutionId,
    /// The budgets its model calls are paid from.
    pub budgets: Vec<String>,
    /// The tasks above its own with their sessions, nearest first.
    pub above: Vec<(TaskId, String)>,
    /// The revision of its session that the run starts from, as far as its row knows.
    pub(crate) base_revision: Option<u64>,
}

impl Lease {
    /// The session of the run.
    pub(crate) fn session(&self) -> SessionRef<'_> {
        SessionRef { namespace: &self.namespace, id: &self.session }
    }
}
