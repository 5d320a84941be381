//! Operator commands for runs that cannot continue by themselves.

use provost_core::RunId;
use provost_core::durable::{DurableEvent, Resumed};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{InvalidTransition, RequestError, RunStatus, WaitReason};
use provost_store::Tx;
use provost_store::query;
use provost_store::table::work::run::{self, RunRow};

use crate::approval;
use crate::error::EngineError;
use crate::run::Runs;
use crate::run::event;

impl Runs<'_> {
    /// Resumes a run that is parked for an operator, after its retries were exhausted or after a crash loop. It
    /// continues at its first in-flight step, with all its retries. Fails for any other run.
    pub async fn resume(
        self,
        namespace: &Namespace,
        id: RunId,
        by: &str,
    ) -> Result<(), EngineError> {
        let (namespace, by) = (namespace.clone(), by.to_owned());
        self.engine.store().write(move |tx| resume(tx, &namespace, id, &by)).await
    }

    /// Retries an ended run that did not succeed: its task gets a new run with the same message, whose id is returned.
    /// Fails for any other run.
    pub async fn retry(self, namespace: &Namespace, id: RunId) -> Result<RunId, EngineError> {
        let row = query::run::get(self.engine.store(), namespace, id).await?;
        let status: RunStatus = row.status;
        if !status.is_terminal() || status == RunStatus::Ok {
            return Err(refused(&row, "retried"));
        }
        let task = query::task::get(self.engine.store(), namespace, row.task_id).await?;
        if task.current_run_id != Some(id) {
            let problem = format!("{id} is not the last run of its task");
            return Err(RequestError::invalid("run", problem, "retry the last one").into());
        }
        self.engine.tasks().retry(namespace, row.task_id).await
    }
}

/// Resumes a run inside a transaction and resets its counts of crashes and failures. Fails if it does not wait for an
/// operator.
fn resume(tx: &mut Tx<'_>, namespace: &Namespace, id: RunId, by: &str) -> Result<(), EngineError> {
    let mut row = run::lock_in(tx, namespace.as_str(), id)?
        .ok_or_else(|| EngineError::not_found("run", id))?;
    if row.state()?.wait_reason() != Some(WaitReason::Operator) {
        return Err(refused(&row, "resumed"));
    }
    row.paused = None;
    row.outcome_code = None;
    row.detail = None;
    row.crash_count = 0;
    row.failure_count = 0;
    let resumed = Resumed { by: by.to_owned() };
    event::append_event(tx, &mut row, DurableEvent::Resumed(resumed))?;
    approval::resume_run(tx, &mut row)
}

/// Creates the error of a run in a state that does not permit the command.
fn refused(row: &RunRow, event: &'static str) -> EngineError {
    let (from, terminal) = (row.status.as_str(), row.status.is_terminal());
    EngineError::from(InvalidTransition { machine: "run", from, transition: event, terminal })
}
