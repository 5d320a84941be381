//! Effects in our own database: they commit together with the step of the call that caused them, so they happen exactly once.
//!
//! A tool of the class [`Transactional`](provost_core::recovery::EffectClass::Transactional) does not change rows while it runs.
//! It hands its work to [`Transactional::commit`], and the transaction that records its result does the work. If the call
//! fails, or the process dies before, nothing has happened.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provost_core::recovery::EffectKey;
use provost_store::{Store, StoreError, Tx};

use crate::error::EngineError;

/// Work for a transaction. It may be run more than once, but only one run of it stays.
pub(crate) type TxWork = Arc<dyn Fn(&mut Tx<'_>) -> Result<(), EngineError> + Send + Sync>;

/// The work of the calls of one run; a tool gets it with [`ToolCx::dep`](provost_tool::ToolCx::dep).
pub struct Transactional {
    store: Store,
    /// In the order in which it was kept.
    works: Mutex<Vec<(EffectKey, TxWork)>>,
    /// Calls of one turn run at once, but each must be tried after what the others want.
    trying: tokio::sync::Mutex<()>,
}

impl Transactional {
    pub(crate) fn new(store: Store) -> Self {
        Self { store, works: Mutex::default(), trying: tokio::sync::Mutex::default() }
    }

    /// Keeps work for the transaction that commits this call's result, and gives what it would give now.
    ///
    /// It is tried first and taken back at once, so that what cannot be done is an error of the tool and not of the run.
    /// `key` is the call's [`effect_key`](provost_tool::ToolCx::effect_key). What this and other calls of the run have kept
    /// before goes first.
    pub async fn commit<T: Send + 'static>(
        &self,
        key: &EffectKey,
        work: impl Fn(&mut Tx<'_>) -> Result<T, EngineError> + Send + Sync + 'static,
    ) -> Result<T, EngineError> {
        let _alone = self.trying.lock().await;
        let before: Vec<TxWork> = self.lock().iter().map(|(_, work)| Arc::clone(work)).collect();
        let work = Arc::new(work);
        let trial = Arc::clone(&work);
        let tried = self.store.write(move |tx| {
            for work in &before {
                work(tx)?;
            }
            // An error takes everything back.
            Err::<(), _>(Trial::Worked(trial(tx)?))
        });
        let value = match tried.await {
            Err(Trial::Worked(value)) => value,
            Err(Trial::Failed(error)) => return Err(error),
            Ok(()) => return Err(EngineError::bug("a trial was kept")),
        };
        let work: TxWork = Arc::new(move |tx| work(tx).map(drop));
        self.lock().push((key.clone(), work));
        Ok(value)
    }

    /// Takes the work of a call.
    pub(crate) fn take(&self, key: &EffectKey) -> Vec<TxWork> {
        self.lock().extract_if(.., |(of, _)| of == key).map(|(_, work)| work).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(EffectKey, TxWork)>> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Transactional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactional").field("works", &self.lock().len()).finish_non_exhaustive()
    }
}

/// How a trial ends: always with an error, so that nothing of it stays.
enum Trial<T> {
    Worked(T),
    Failed(EngineError),
}

impl<T> From<EngineError> for Trial<T> {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl<T> From<StoreError> for Trial<T> {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// The work of one call, on its way into its transaction.
#[derive(Clone, Default)]
pub(crate) struct Works(pub(crate) Vec<TxWork>);

impl Works {
    /// Does the work. It was tried before; if it cannot be done now after all, the call is made again, and hears why.
    pub(crate) fn carry_out(&self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        for work in &self.0 {
            work(tx).map_err(|error| match error {
                EngineError::Work(error) => {
                    EngineError::bug(format!("a call cannot do what it tried: {error}"))
                }
                other => other,
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Works {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Works({})", self.0.len())
    }
}
