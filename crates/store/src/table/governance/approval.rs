//! Questions to people, by id.

use provost_core::lifecycle::Ballot;
use provost_core::{ApprovalId, RunId, TaskId, Timestamp};

use crate::query::QueryError;
use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// One question and, later, its answer.
    ApprovalRow in "approval" {
        /// The id.
        id: ApprovalId,
        /// The tenancy boundary.
        namespace: String,
        /// The task it belongs to.
        task_id: TaskId,
        /// The run that waits.
        run_id: RunId,
        /// The step that waits, if it is about one.
        step: Option<u64>,
        /// What is asked: a tool call, a question, an unknown effect.
        kind: String,
        /// Exactly what will be done, as JSON.
        plan: String,
        /// The hash of the plan.
        plan_hash: String,
        /// What is shown to people, as JSON.
        request: String,
        /// Where it stands.
        state: String,
        /// The answer, as JSON.
        decision: Option<String>,
        /// Who answered.
        decided_by: Option<String>,
        /// When it was answered.
        decided: Option<Timestamp>,
        /// When the fallback answers.
        expires: Timestamp,
        /// The answer at expiry.
        fallback: String,
        /// When it was asked.
        created: Timestamp,
        /// Who decides it and who has said what, as JSON; nothing where the first answer settles it.
        ballot: Option<String>,
    }
}

impl ApprovalRow {
    /// The ballot, if the first answer does not settle the approval.
    pub fn ballot(&self) -> Result<Option<Ballot>, QueryError> {
        Ok(self.ballot.as_deref().map(serde_json::from_str).transpose()?)
    }
}

/// Which approvals to list.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// In this state only.
    pub state: Option<String>,
    /// Of this run only.
    pub run: Option<RunId>,
    /// Of this task only.
    pub task: Option<TaskId>,
    /// Older than this one: the last of the page before.
    pub before: Option<ApprovalId>,
}

/// The approval with the id.
pub fn get(tx: &mut Tx<'_>, id: ApprovalId) -> Result<Option<ApprovalRow>, StoreError> {
    tx.optional(&ApprovalRow::select("WHERE id = ?1"), params![id])
}

/// The approval with the id, if it belongs to the namespace.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: ApprovalId,
) -> Result<Option<ApprovalRow>, StoreError> {
    let sql = ApprovalRow::select("WHERE id = ?2 AND namespace = ?1");
    tx.optional(&sql, params![namespace, id])
}

/// The approval with the id, locked. Its run must be locked.
pub fn lock(tx: &mut Tx<'_>, id: ApprovalId) -> Result<Option<Locked<ApprovalRow>>, StoreError> {
    tx.lock(&ApprovalRow::select("WHERE id = ?1"), params![id])
}

/// The open approvals of a namespace, oldest first, after the id `after`.
pub fn open(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: Option<ApprovalId>,
    limit: u64,
) -> Result<Vec<ApprovalRow>, StoreError> {
    let sql = ApprovalRow::select(
        "WHERE namespace = ?1 AND state = 'pending' AND id > coalesce(?2, '') ORDER BY id LIMIT ?3",
    );
    tx.all(&sql, params![namespace, after, limit])
}

/// Approvals of a namespace in any state, newest first.
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

/// Every approval of a run, oldest first.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<ApprovalRow>, StoreError> {
    tx.all(&ApprovalRow::select("WHERE run_id = ?1 ORDER BY id"), params![run_id])
}

/// Finds the open approvals of a run, oldest first.
const OPEN_OF_RUN: &str = "WHERE run_id = ?1 AND state = 'pending' ORDER BY id";

/// The open approvals of a run, oldest first.
pub fn open_of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<ApprovalRow>, StoreError> {
    tx.all(&ApprovalRow::select(OPEN_OF_RUN), params![run_id])
}

/// The open approvals of a run, oldest first, locked. The run must be locked.
pub fn lock_open_of_run(
    tx: &mut Tx<'_>,
    run_id: RunId,
) -> Result<Vec<Locked<ApprovalRow>>, StoreError> {
    tx.lock_all(&ApprovalRow::select(OPEN_OF_RUN), params![run_id])
}
