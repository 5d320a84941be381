//! Effects in the database of the engine: they commit together with the step of their call, so they happen exactly
//! once.
//!
//! A tool of the class [`Transactional`](provost_core::recovery::EffectClass::Transactional) does not change rows
//! while it runs. It registers a closure with [`Transactional::commit`], and the transaction that records its result
//! runs the closure. If the call fails or the process dies before that, no row changes.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::recovery::EffectKey;
use provost_store::{Store, StoreError, Tx};

use crate::error::EngineError;

/// Closure that runs in a transaction. It can run more than once, but only one execution commits.
pub(crate) type TxAction = Arc<dyn Fn(&mut Tx<'_>) -> Result<(), EngineError> + Send + Sync>;

/// Database effects of the calls of one run. A tool gets it with [`ToolContext::dep`](provost_tool::ToolContext::dep).
pub struct TransactionalEffects {
    store: Store,
    /// In order of registration.
    tx_actions: Mutex<Vec<(EffectKey, TxAction)>>,
    /// Calls of one turn run concurrently, but each dry run must include the effects that were registered before.
    dry_run: tokio::sync::Mutex<()>,
}

impl TransactionalEffects {
    /// Creates an empty collector.
    pub(crate) fn new(store: Store) -> Self {
        Self { store, tx_actions: Mutex::default(), dry_run: tokio::sync::Mutex::default() }
    }

    /// Registers a closure for the transaction that commits the result of this call. Returns the closure's current
    /// result.
    ///
    /// The closure first runs in a transaction that rolls back, so that a failure is an error of the tool and not of
    /// the run. `key` is the call's [`effect_key`](provost_tool::ToolContext::effect_key). Closures that this and other
    /// calls of the run have registered run first.
    pub async fn commit<T: Send + 'static>(
        &self,
        key: &EffectKey,
        action: impl Fn(&mut Tx<'_>) -> Result<T, EngineError> + Send + Sync + 'static,
    ) -> Result<T, EngineError> {
        let _guard = self.dry_run.lock().await;
        let before: Vec<TxAction> =
            self.tx_actions.lock().iter().map(|(_, action)| Arc::clone(action)).collect();
        let action = Arc::new(action);
        let dry_run_action = Arc::clone(&action);
        let result = self.store.write(move |tx| {
            for action in &before {
                action(tx)?;
            }
            // An error rolls back everything.
            Err::<(), _>(DryRun::Succeeded(dry_run_action(tx)?))
        });
        let value = match result.await {
            Err(DryRun::Succeeded(value)) => value,
            Err(DryRun::Failed(error)) => return Err(error),
            Ok(()) => return Err(EngineError::bug("a dry run was committed")),
        };
        let action: TxAction = Arc::new(move |tx| action(tx).map(drop));
        self.tx_actions.lock().push((key.clone(), action));
        Ok(value)
    }

    /// Removes the closures of a call and returns them.
    pub(crate) fn take(&self, key: &EffectKey) -> Vec<TxAction> {
        self.tx_actions
            .lock()
            .extract_if(.., |(of, _)| of == key)
            .map(|(_, action)| action)
            .collect()
    }
}

impl fmt::Debug for TransactionalEffects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionalEffects")
            .field("actions", &self.tx_actions.lock().len())
            .finish_non_exhaustive()
    }
}

/// Result of a dry run. Always an error, so that the transaction rolls back.
enum DryRun<T> {
    Succeeded(T),
    Failed(EngineError),
}

impl<T> From<EngineError> for DryRun<T> {
    fn from(error: EngineError) -> Self {
        Self::Failed(error)
    }
}

impl<T> From<StoreError> for DryRun<T> {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// Closures for the transaction of one write.
#[derive(Clone, Default)]
pub(crate) struct TxActions(pub(crate) Vec<TxAction>);

impl TxActions {
    /// Executes the closures. Their dry run succeeded; if one fails now, the write fails and the call runs again in
    /// the next attempt.
    pub(crate) fn apply(&self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        for action in &self.0 {
            action(tx).map_err(|error| match error {
                EngineError::Request(error) => {
                    EngineError::bug(format!("an action failed after its dry run: {error}"))
                }
                other => other,
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for TxActions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxActions({})", self.0.len())
    }
}
