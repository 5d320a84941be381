//! Executors: one for each kind of run.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::lifecycle::RunKind;

use super::RunningAttempt;
use super::agent_executor::AgentExecutor;
use crate::attempt::outcome::AttemptOutcome;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::journal::RunJournal;

/// Executes the runs of one kind. Claims, leases, settlement and retries are the same for every kind.
pub(crate) trait Executor: Send + Sync + 'static {
    /// Returns the kind of runs that it executes.
    fn kind(&self) -> RunKind;

    /// Executes one attempt from the stored state of its run to an outcome. Returns `None` if another attempt has
    /// claimed the run.
    fn execute<'a>(
        &'a self,
        shared: &'a EngineInner,
        live: &'a RunningAttempt,
    ) -> BoxFuture<'a, Result<Option<ExecutionResult>, EngineError>>;
}

/// Result of executing an attempt.
pub(crate) struct ExecutionResult {
    pub(crate) outcome: AttemptOutcome,
    pub(crate) position: JournalPosition,
}

/// Progress of an attempt in the journal. Zero values mean that it is unknown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JournalPosition {
    /// The last step, unless it is known to be persisted; otherwise 0. It must be persisted before or with the
    /// settlement.
    pub(crate) last_step: u64,
    /// First step without an outcome. All earlier steps are complete.
    pub(crate) first_in_flight_step: u64,
}

impl JournalPosition {
    /// Returns the position of a journal.
    pub(crate) fn of(journal: &RunJournal) -> Self {
        Self {
            last_step: journal.last_unflushed_step(),
            first_in_flight_step: journal.first_in_flight_step(),
        }
    }
}

impl ExecutionResult {
    /// Returns the result of an attempt that failed before it wrote anything.
    pub(crate) fn failed(outcome: AttemptOutcome) -> Self {
        Self { outcome, position: JournalPosition::default() }
    }
}

/// The executors of a worker, by kind.
pub(crate) struct Executors(HashMap<RunKind, Arc<dyn Executor>>);

impl Default for Executors {
    fn default() -> Self {
        let executors: [Arc<dyn Executor>; 1] = [Arc::new(AgentExecutor)];
        Self(executors.into_iter().map(|executor| (executor.kind(), executor)).collect())
    }
}

impl Executors {
    /// Returns the executor of a kind. Fails for a kind without one.
    pub(crate) fn get(&self, kind: RunKind) -> Result<&Arc<dyn Executor>, EngineError> {
        let missing = || EngineError::bug(format!("no executor for runs of kind `{kind}`"));
        self.0.get(&kind).ok_or_else(missing)
    }
}
