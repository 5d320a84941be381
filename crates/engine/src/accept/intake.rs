//! Runs that begin where they are accepted: if nothing waits and a worker of this process has room, the transaction that accepts
//! a run claims it, too.

use std::sync::{Arc, Mutex, PoisonError};

use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::row::{exec_class, run};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Grounds;
use crate::claim::{self, Claimed, Claimer};
use crate::error::EngineError;

/// What a worker does with a run that was claimed for it.
type Begin = Box<dyn Fn(Claimed, OwnedSemaphorePermit) + Send + Sync>;

/// The door of a worker for runs that are accepted in its process.
pub(crate) struct Intake {
    claimer: Claimer,
    /// Its places for runs; each attempt has one.
    places: Arc<Semaphore>,
    begin: Begin,
    /// True once the worker begins nothing more. Nothing is begun beside the change of it.
    closed: Mutex<bool>,
}

impl Intake {
    pub(crate) fn new(
        claimer: Claimer,
        places: Arc<Semaphore>,
        begin: impl Fn(Claimed, OwnedSemaphorePermit) + Send + Sync + 'static,
    ) -> Self {
        Self { claimer, places, begin: Box::new(begin), closed: Mutex::default() }
    }

    /// Begins nothing more. What is claimed meanwhile is left to the end of the worker, which gives everything back.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Who claims.
    pub(crate) fn claimer(&self) -> &Claimer {
        &self.claimer
    }

    /// True if it has a place for a run.
    pub(crate) fn has_room(&self) -> bool {
        self.places.available_permits() > 0
    }

    /// A place for a run on these grounds that comes before everything that waits, if there is one.
    pub(super) fn place(
        self: &Arc<Self>,
        tx: &mut Tx<'_>,
        grounds: &Grounds,
    ) -> Result<Option<FirstPlace>, EngineError> {
        let Claimer { pool, focus, not_before, .. } = &self.claimer;
        // Whoever serves only some sessions looks for them itself.
        let serves = *pool == grounds.pool
            && focus.is_none()
            && not_before.is_none_or(|until| until <= tx.now());
        if !serves {
            return Ok(None);
        }
        let Ok(permit) = Arc::clone(&self.places).try_acquire_owned() else { return Ok(None) };
        // Whoever waits has waited longer; and where there are ceilings, the claim looks at them.
        if run::any_ready_or_ceiling(tx)? != (false, false) {
            return Ok(None);
        }
        let turn = claim::turn(tx.now(), 0);
        if !exec_class::take(tx, &grounds.class, turn)? {
            return Ok(None);
        }
        Ok(Some(FirstPlace { intake: Arc::clone(self), permit }))
    }

    /// Begins with a run that was claimed, unless the worker begins nothing more.
    pub(crate) fn begin(&self, claimed: Claimed, permit: OwnedSemaphorePermit) {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if !*closed {
            (self.begin)(claimed, permit);
        }
    }
}

/// A place that was taken for a run in the making.
pub(crate) struct FirstPlace {
    intake: Arc<Intake>,
    permit: OwnedSemaphorePermit,
}

impl FirstPlace {
    /// Who claims.
    pub(super) fn claimer(&self) -> &Claimer {
        &self.intake.claimer
    }

    /// Lets the run begin as soon as it is on disk.
    pub(super) fn begin(self, tx: &mut Tx<'_>, claimed: Claimed) {
        failpoint!("claim.before_commit");
        let Self { intake, permit } = self;
        tx.after_commit(move || intake.begin(claimed, permit));
    }
}
