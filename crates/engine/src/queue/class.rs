//! Scheduling classes and ceilings: how many runs may work at once, and the breaker that stops a class that cannot run.
//!
//! Invariant: counters change only in the transaction that claims or lets go of a run, so that no commit shows more runs at
//! work than a claim was allowed to start.

use provost_core::Timestamp;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::WorkError;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::{Admission, Breaker, ClassKey};
use provost_store::table::scheduling::concurrency_limit;
use provost_store::table::scheduling::execution_class::{self, ExecClassRow};
use provost_store::table::work::attempt;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Hint, Tx};

use crate::engine::Engine;
use crate::error::EngineError;

/// The most runs of one class, namespace or pool that anybody may ask for.
const TARGET_MAX: u64 = 100_000;

/// What a ceiling limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ceiling {
    /// The runs of a namespace.
    Namespace(Namespace),
    /// The runs of a pool of workers.
    Pool(String),
}

impl Ceiling {
    fn scope(&self) -> String {
        match self {
            Self::Namespace(namespace) => format!("namespace:{namespace}"),
            Self::Pool(pool) => format!("pool:{pool}"),
        }
    }
}

/// Targets of execution classes and concurrency limits. See [`Engine::classes`](crate::Engine::classes).
#[derive(Clone, Copy)]
pub struct ExecutionClasses<'a> {
    pub(crate) engine: &'a Engine,
}

impl ExecutionClasses<'_> {
    /// Sets how many runs of a class may work at once. Zero pauses it: nothing more starts, what works goes on.
    pub async fn set_target(
        self,
        namespace: &Namespace,
        class: &ClassKey,
        target: u64,
    ) -> Result<(), EngineError> {
        check_target(target)?;
        let (namespace, key) = (namespace.clone(), class.clone());
        let write = self.engine.store().write(move |tx| {
            let mut class = execution_class::lock_in(tx, namespace.as_str(), key.as_str())?
                .ok_or_else(|| EngineError::not_found("class", &key))?;
            class.desired = target;
            class.updated = tx.now();
            class.save(tx)?;
            tx.hint(Hint::RunReady);
            Ok::<_, EngineError>(())
        });
        write.await
    }

    /// Sets how many runs may work at once below a ceiling, whatever their classes allow; `None` takes the ceiling away.
    pub async fn set_limit(
        self,
        ceiling: &Ceiling,
        target: Option<u64>,
    ) -> Result<(), EngineError> {
        check_target(target.unwrap_or(0))?;
        let scope = ceiling.scope();
        let write = self.engine.store().write(move |tx| {
            match target {
                Some(target) => {
                    concurrency_limit::set(tx, &scope, target)?;
                    // What works already counts from now on.
                    concurrency_limit::recount(tx)?;
                }
                None => drop(concurrency_limit::remove(tx, &scope)?),
            }
            tx.hint(Hint::RunReady);
            Ok::<_, EngineError>(())
        });
        write.await
    }
}

fn check_target(target: u64) -> Result<(), EngineError> {
    if target <= TARGET_MAX {
        return Ok(());
    }
    let problem = format!("{target} runs at once are too many");
    let fix = format!("use 0 to {TARGET_MAX}; 0 pauses");
    Err(WorkError::invalid("target", problem, fix).into())
}

/// Takes a place for a run that is about to be claimed; false if there is none after all.
pub(crate) fn take_slot(tx: &mut Tx<'_>, run: &RunRow, turn: u64) -> Result<bool, EngineError> {
    if !execution_class::take(tx, &run.class_key, turn)? && !admit(tx, run, turn)? {
        return Ok(false);
    }
    if !concurrency_limit::take(tx, &ceilings(run))? {
        // It was not full when the run was picked.
        execution_class::count(tx, &run.class_key, -1)?;
        return Ok(false);
    }
    Ok(true)
}

/// Asks the breaker of a class; true if it lets a run pass.
fn admit(tx: &mut Tx<'_>, run: &RunRow, turn: u64) -> Result<bool, EngineError> {
    let now = tx.now();
    let missing = || EngineError::Unreadable(format!("the class of {} is missing", run.id));
    let mut class = execution_class::lock(tx, &run.class_key)?.ok_or_else(missing)?;
    match breaker(&class)?.admit(count(class.desired), count(class.running), now) {
        Admission::Admit => {}
        Admission::Probe(probing) => set_breaker(&mut class, &probing, now)?,
        Admission::Paused | Admission::Full | Admission::Open { .. } => return Ok(false),
    }
    class.turn = turn;
    class.updated = now;
    class.save(tx)?;
    execution_class::count(tx, &run.class_key, 1)?;
    Ok(true)
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Gives the place of a run back, and tells the breaker how its attempt has ended.
pub(crate) fn give_slot(
    tx: &mut Tx<'_>,
    run: &RunRow,
    code: Option<OutcomeCode>,
) -> Result<(), EngineError> {
    let code = match code {
        // A process that dies takes all its runs with it and says nothing about their class. A run that kills processes is
        // found by the count of its own crashes.
        Some(OutcomeCode::WorkerLost) => Some(OutcomeCode::Fenced),
        code => code,
    };
    // Whoever worked says nothing new about a class that works.
    let simple = code.is_none() && execution_class::release(tx, &run.class_key)?;
    if !simple && let Some(mut class) = execution_class::lock(tx, &run.class_key)? {
        let now = tx.now();
        let started = attempt::started(tx, run.id, run.attempt_no)?.unwrap_or(now);
        let settled = breaker(&class)?.settled(started, code, now);
        set_breaker(&mut class, &settled, now)?;
        class.updated = now;
        class.save(tx)?;
        execution_class::count(tx, &run.class_key, -1)?;
    }
    concurrency_limit::release(tx, &ceilings(run))?;
    // A run may wait for this slot.
    if run::any_ready(tx)? {
        tx.hint(Hint::RunReady);
    }
    Ok(())
}

/// The ceilings a run counts for.
fn ceilings(run: &RunRow) -> [String; 2] {
    [format!("namespace:{}", run.namespace), format!("pool:{}", run.pool)]
}

/// The breaker of a class.
fn breaker(class: &ExecClassRow) -> Result<Breaker, EngineError> {
    let failures: Vec<Timestamp> = serde_json::from_str(&class.failures)?;
    Ok(Breaker::from_row(failures, class.probe_at))
}

/// Puts a breaker into the row of its class.
fn set_breaker(
    class: &mut ExecClassRow,
    breaker: &Breaker,
    now: Timestamp,
) -> Result<(), EngineError> {
    class.failures = serde_json::to_string(breaker.failures())?;
    class.probe_at = breaker.probe_at();
    class.health = breaker.health(now).as_str().to_owned();
    Ok(())
}
