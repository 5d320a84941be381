//! Lease of a run attempt.

use std::time::Duration;

use provost_core::lifecycle::RunKind;
use provost_core::{ExecutionId, RunId, TaskId, WorkerId};
use provost_store::table::work::session::SessionRef;

/// Lease of a run: all data that a worker needs to write to the run. Every write carries the epoch and fails after
/// another claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// Task of the run.
    pub task: TaskId,
    /// Kind of the run, which selects its executor.
    pub kind: RunKind,
    /// Namespace of the run.
    pub namespace: String,
    /// Session of the run.
    pub session: String,
    /// Fencing token.
    pub epoch: u64,
    /// Number of the attempt.
    pub attempt: u64,
    /// Worker that has the lease.
    pub worker: WorkerId,
    /// Id of the execution environment of this attempt.
    pub execution: ExecutionId,
    /// Budgets that are charged for model calls.
    pub budgets: Vec<String>,
    /// Ancestor tasks with their sessions, nearest first.
    pub ancestors: Vec<(TaskId, String)>,
    /// Hash of the resource set of the run. `None` if it has none.
    pub resource_set: Option<String>,
    /// Session revision from which the run starts; `None` if its row does not know it yet.
    pub(crate) base_revision: Option<u64>,
    /// Time from due to claimed.
    pub(crate) waited: Duration,
}

impl Lease {
    /// Returns the session of the run.
    pub(crate) fn session(&self) -> SessionRef<'_> {
        SessionRef { namespace: &self.namespace, id: &self.session }
    }
}
