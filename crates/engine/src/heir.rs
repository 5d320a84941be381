//! The place of an attempt that is over, and who takes it.
//!
//! A call may let only so many of its children work at once; the others wait for one of those to end. Then the next one begins in
//! the transaction of that end and in the place that was left, without being queued, looked for and claimed.
//!
//! Invariant: whoever waits in the queue comes first. So nothing is taken like this while anything else could be claimed.

use std::sync::{Arc, Mutex, PoisonError};

use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::row::held::Held;
use provost_store::row::run::RunRow;
use tokio::sync::OwnedSemaphorePermit;

use crate::accept::Intake;
use crate::claim;
use crate::error::EngineError;

/// The place of an attempt among those of its worker, until somebody takes it or it is given back. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Place(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Place {
    pub(crate) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(Some(permit))))
    }

    /// Takes the place; nothing if it was taken before.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whoever begins in the place of an attempt that ends well.
pub(crate) struct Heir {
    intake: Arc<Intake>,
    place: Place,
}

impl Heir {
    pub(crate) fn new(intake: Arc<Intake>, place: Place) -> Self {
        Self { intake, place }
    }

    /// Lets a run begin in the place as soon as the transaction is on disk; false if it must be queued.
    pub(crate) fn take(
        &self,
        tx: &mut Tx<'_>,
        ended: &RunRow,
        next: &Held,
    ) -> Result<bool, EngineError> {
        let Some(claimed) = claim::at_release(tx, self.intake.claimer(), ended, next)? else {
            return Ok(false);
        };
        failpoint!("claim.before_commit");
        let (intake, place) = (Arc::clone(&self.intake), self.place.clone());
        tx.after_commit(move || {
            // If the place is gone its worker is, and gives back what it has.
            if let Some(permit) = place.take() {
                intake.begin(claimed, permit);
            }
        });
        Ok(true)
    }
}
