//! Approvals: requests to a person for a decision.

use provost_core::lifecycle::{ApprovalKind, ApprovalState, ApprovalTimeoutAction, ApprovalVotes};

use provost_core::{ApprovalId, RunId, TaskId, Timestamp};

use crate::query::QueryError;
use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// An approval and its decision.
    ApprovalRow in "approval" {
        /// The id.
        id: ApprovalId,
        /// Namespace of the row.
        namespace: String,
        /// The task of the run.
        task_id: TaskId,
        /// The waiting run.
        run_id: RunId,
        /// The waiting step, if the approval is about one.
        step: Option<u64>,
        /// Subject of the approval: a tool call, a question, an unknown effect.
        kind: ApprovalKind,
        /// The exact operation that needs approval, as JSON.
        plan: String,
        /// Hash of the plan.
        plan_hash: String,
        /// The request as displayed to approvers, as JSON.
        request: String,
        /// State of the approval.
        state: ApprovalState,
        /// The decision, as JSON.
        decision: Option<String>,
        /// The approver who decided.
        decided_by: Option<String>,
        /// Time of the decision.
        decided: Option<Timestamp>,
        /// Time at which the fallback decides.
        expires: Timestamp,
        /// Decision on expiry.
        fallback: ApprovalTimeoutAction,
        /// Time of creation.
        created: Timestamp,
        /// The approvers and their votes, as JSON; `None` if the first vote decides.
        ballot: Option<String>,
    }
}

impl ApprovalRow {
    /// Parses the votes. `None` if the first vote decides.
    pub fn ballot(&self) -> Result<Option<ApprovalVotes>, QueryError> {
        Ok(self.ballot.as_deref().map(serde_json::from_str).transpose()?)
    }
}

/// Criteria for listing approvals; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// State of the approval.
    pub state: Option<ApprovalState>,
    /// The waiting run.
    pub run: Option<RunId>,
    /// The task of the run.
    pub task: Option<TaskId>,
    /// Approvals older than this one: the last approval of the previous page.
    pub before: Option<ApprovalId>,
}

/// Returns the approval with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: ApprovalId) -> Result<Option<ApprovalRow>, StoreError> {
    tx.fetch_optional(&ApprovalRow::select("WHERE id = ?1"), params![id])
}

/// Returns the approval with this id. `None` if the namespace has none with this id.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: ApprovalId,
) -> Result<Option<ApprovalRow>, StoreError> {
    let sql = ApprovalRow::select("WHERE id = ?2 AND namespace = ?1");
    tx.fetch_optional(&sql, params![namespace, id])
}

/// Returns the approval with this id, locked. The caller must have locked its run.
pub fn lock(tx: &mut Tx<'_>, id: ApprovalId) -> Result<Option<Locked<ApprovalRow>>, StoreError> {
    tx.lock(&ApprovalRow::select("WHERE id = ?1"), params![id])
}

/// Returns the pending approvals of a namespace, oldest first, after the id `after`.
pub fn open(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: Option<ApprovalId>,
    limit: u64,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let sql = ApprovalRow::select(
        "WHERE namespace = ?1 AND state = 'pending' AND id > coalesce(?2, '') ORDER BY id LIMIT ?3",
    );
    tx.fetch_all(&sql, params![namespace, after, limit])
}

/// Returns approvals of a namespace in any state, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    filter: &ApprovalFilter,
    limit: u64,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let ApprovalFilter { state, run, task, before } = filter;
    Filter::of(namespace)
        .maybe("state = {}", state)
        .maybe("id IN (SELECT q.id FROM approval q WHERE q.run_id = {})", run)
        .maybe("task_id = {}", task)
        .maybe("id < {}", before)
        .rows(tx, ApprovalRow::select, "id DESC", limit)
}

/// Returns all approvals of a run, oldest first.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<ApprovalRow>, StoreError> {
    tx.fetch_all(&ApprovalRow::select("WHERE run_id = ?1 ORDER BY id"), params![run_id])
}

/// Selects the pending approvals of a run, oldest first.
const OPEN_OF_RUN: &str = "WHERE run_id = ?1 AND state = 'pending' ORDER BY id";

/// Returns the pending approvals of a run, oldest first.
pub fn open_of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<ApprovalRow>, StoreError> {
    tx.fetch_all(&ApprovalRow::select(OPEN_OF_RUN), params![run_id])
}

/// Returns the pending approvals of a run, oldest first, locked. The caller must have locked the run.
pub fn lock_open_of_run(
    tx: &mut Tx<'_>,
    run_id: RunId,
) -> Result<Vec<Locked<ApprovalRow>>, StoreError> {
    tx.lock_all(&ApprovalRow::select(OPEN_OF_RUN), params![run_id])
}
