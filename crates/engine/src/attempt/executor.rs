//! Execution of a run, whatever its kind.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::lifecycle::RunKind;

use super::Live;
use super::agent_executor::AgentExecutor;
use crate::attempt::outcome::Verdict;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::journal::RunJournal;

/// Executes the runs of one kind. Claiming, leases, settling and retries are the same for every kind.
pub(crate) trait Executor: Send + Sync + 'static {
    /// The kind of runs that it executes.
    fn kind(&self) -> RunKind;

    /// Drives one attempt from the stored state of its run to an outcome; `None` if another attempt has taken the run.
    fn execute<'a>(
        &'a self,
        shared: &'a Shared,
        live: &'a Live,
    ) -> BoxFuture<'a, Result<Option<Executed>, EngineError>>;
}

/// The outcome of an attempt.
pub(crate) struct Executed {
    pub(crate) verdict: Verdict,
    pub(crate) written: Written,
}

/// How far an attempt has written; zero if that is not known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Written {
    /// The last step, unless it is known to be on disk. It need not be there before the attempt is settled, but must be with it.
    pub(crate) after: u64,
    /// No step before this one is without an outcome then.
    pub(crate) open_from: u64,
}

impl Written {
    pub(crate) fn to(journal: &RunJournal) -> Self {
        Self { after: journal.unconfirmed_step(), open_from: journal.open_from() }
    }
}

impl Executed {
    /// An attempt that failed before it had written anything.
    pub(crate) fn failed(verdict: Verdict) -> Self {
        Self { verdict, written: Written::default() }
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
    /// The executor of a kind.
    pub(crate) fn get(&self, kind: RunKind) -> Result<&Arc<dyn Executor>, EngineError> {
        let missing = || EngineError::bug(format!("no executor for runs of kind `{kind}`"));
        self.0.get(&kind).ok_or_else(missing)
    }
}
