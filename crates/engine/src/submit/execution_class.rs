//! Execution classes and concurrency limits: the number of concurrent runs, and the circuit breaker that stops a
//! failing class.
//!
//! Invariant: counters change only in the transaction that claims or releases a run. So no commit shows more running
//! runs than the limits permit.

use provost_core::Timestamp;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::{Admission, ClassBreaker, ExecutionClassKey};
use provost_store::table::scheduling::concurrency_limit;
use provost_store::table::scheduling::execution_class::{self, ExecutionClassRow};
use provost_store::table::work::attempt;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Tx, Wakeup};

use crate::engine::Engine;
use crate::error::EngineError;

/// Upper bound for targets and limits.
const TARGET_MAX: u64 = 100_000;

/// Scope of a concurrency limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConcurrencyScope {
    /// All runs of a namespace.
    Namespace(Namespace),
    /// All runs of a worker pool.
    Pool(String),
}

impl ConcurrencyScope {
    /// Returns the stored name of the scope.
    fn scope(&self) -> String {
        match self {
            Self::Namespace(namespace) => format!("namespace:{namespace}"),
            Self::Pool(pool) => format!("pool:{pool}"),
        }
    }
}

/// Concurrency targets of execution classes, and concurrency limits. See [`Engine::classes`](crate::Engine::classes).
#[derive(Clone, Copy)]
pub struct ExecutionClasses<'a> {
    pub(crate) engine: &'a Engine,
}

impl ExecutionClasses<'_> {
    /// Sets the concurrency target of a class. Zero pauses the class: no run starts, running runs continue. Fails if
    /// the namespace has no such class.
    pub async fn set_target(
        self,
        namespace: &Namespace,
        class: &ExecutionClassKey,
        target: u64,
    ) -> Result<(), EngineError> {
        check_target(target)?;
        let (namespace, key) = (namespace.clone(), class.clone());
        let write = self.engine.store().write(move |tx| {
            let mut class = execution_class::lock_in(tx, namespace.as_str(), key.as_str())?
                .ok_or_else(|| EngineError::not_found("class", &key))?;
            class.max_running = target;
            class.updated = tx.now();
            class.save(tx)?;
            tx.wake(Wakeup::RunReady);
            Ok::<_, EngineError>(())
        });
        write.await
    }

    /// Sets the number of concurrent runs of a namespace or pool, in addition to the targets of their classes. `None`
    /// removes the limit.
    pub async fn set_limit(
        self,
        scope: &ConcurrencyScope,
        target: Option<u64>,
    ) -> Result<(), EngineError> {
        check_target(target.unwrap_or(0))?;
        let scope = scope.scope();
        let write = self.engine.store().write(move |tx| {
            match target {
                Some(target) => {
                    concurrency_limit::set(tx, &scope, target)?;
                    // Runs that are already running count from now on.
                    concurrency_limit::recount(tx)?;
                }
                None => drop(concurrency_limit::remove(tx, &scope)?),
            }
            tx.wake(Wakeup::RunReady);
            Ok::<_, EngineError>(())
        });
        write.await
    }
}

/// Fails if a target is too large.
fn check_target(target: u64) -> Result<(), EngineError> {
    if target <= TARGET_MAX {
        return Ok(());
    }
    let problem = format!("{target} concurrent runs are too many");
    let fix = format!("use 0 to {TARGET_MAX}; 0 pauses");
    Err(RequestError::invalid("target", problem, fix).into())
}

/// Takes a slot of the run's class and of its concurrency limits. Returns `false`, and takes none, if one of them is
/// full or the circuit breaker is open.
pub(crate) fn acquire_slot(tx: &mut Tx<'_>, run: &RunRow, turn: u64) -> Result<bool, EngineError> {
    if !execution_class::acquire_slot(tx, &run.class_key, turn)? && !admit(tx, run, turn)? {
        return Ok(false);
    }
    if !concurrency_limit::acquire_slot(tx, &scopes(run))? {
        // The limit was not reached when the run was selected.
        execution_class::count(tx, &run.class_key, -1)?;
        return Ok(false);
    }
    Ok(true)
}

/// Takes a slot of a class with recent failures if its circuit breaker admits a run. Returns false otherwise.
fn admit(tx: &mut Tx<'_>, run: &RunRow, turn: u64) -> Result<bool, EngineError> {
    let now = tx.now();
    let missing = || EngineError::Unreadable(format!("the class of {} is missing", run.id));
    let mut class = execution_class::lock(tx, &run.class_key)?.ok_or_else(missing)?;
    match breaker(&class)?.admit(count(class.max_running), count(class.running), now) {
        Admission::Admit => {}
        Admission::Probe(probing) => set_breaker(&mut class, &probing, now)?,
        Admission::Paused | Admission::Full | Admission::Open { .. } => return Ok(false),
    }
    class.last_served = turn;
    class.updated = now;
    class.save(tx)?;
    execution_class::count(tx, &run.class_key, 1)?;
    Ok(true)
}

/// Converts a number. A larger one becomes the maximum.
fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Frees the slots of a run, reports the outcome of its attempt to the circuit breaker, and wakes a waiting run.
pub(crate) fn release_slot(
    tx: &mut Tx<'_>,
    run: &RunRow,
    code: Option<OutcomeCode>,
) -> Result<(), EngineError> {
    let code = match code {
        // A dying process takes all its runs with it, which says nothing about their class. The crash count of a run
        // finds a run that kills processes.
        Some(OutcomeCode::WorkerLost) => Some(OutcomeCode::Fenced),
        code => code,
    };
    // A success changes nothing in a healthy class.
    let simple = code.is_none() && execution_class::release_slot(tx, &run.class_key)?;
    if !simple && let Some(mut class) = execution_class::lock(tx, &run.class_key)? {
        let now = tx.now();
        let started = attempt::started(tx, run.id, run.attempt_no)?.unwrap_or(now);
        let settled = breaker(&class)?.after_attempt(started, code, now);
        set_breaker(&mut class, &settled, now)?;
        class.updated = now;
        class.save(tx)?;
        execution_class::count(tx, &run.class_key, -1)?;
    }
    concurrency_limit::release_slot(tx, &scopes(run))?;
    // A ready run may wait for this slot.
    if run::any_ready(tx)? {
        tx.wake(Wakeup::RunReady);
    }
    Ok(())
}

/// Returns the concurrency limits that count a run.
fn scopes(run: &RunRow) -> [String; 2] {
    [format!("namespace:{}", run.namespace), format!("pool:{}", run.pool)]
}

/// Returns the circuit breaker of a class.
fn breaker(class: &ExecutionClassRow) -> Result<ClassBreaker, EngineError> {
    let failures: Vec<Timestamp> = serde_json::from_str(&class.failures)?;
    Ok(ClassBreaker::from_row(failures, class.probe_at))
}

/// Copies the state of a circuit breaker to the row of its class, without saving the row.
fn set_breaker(
    class: &mut ExecutionClassRow,
    breaker: &ClassBreaker,
    now: Timestamp,
) -> Result<(), EngineError> {
    class.failures = serde_json::to_string(breaker.failures())?;
    class.probe_at = breaker.probe_at();
    class.health = breaker.health(now);
    Ok(())
}
