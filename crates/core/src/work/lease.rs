//! Who may write, and until when.
//!
//! A lease is taken with a new epoch. Every write of its owner carries the epoch and fails when another counts, so a worker
//! that slept through its lease cannot harm. All times are those of the database's clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::work::WorkError;
use crate::{ExecutionId, Timestamp, WorkerId};

/// How often something was claimed; the fencing token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// From the stored number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for a column.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch of the next claim.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// Who holds a lease. Its text, `worker:execution`, is for people and is never taken apart again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// The process.
    pub worker: WorkerId,
    /// The attempt's own place in it.
    pub execution: ExecutionId,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.worker, self.execution)
    }
}

/// The hold of one owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Held {
    /// Whose.
    pub owner: Owner,
    /// Until when, without a renewal.
    pub until: Timestamp,
    /// True once somebody asked to cancel: renewals no longer extend it.
    pub cancel_requested: bool,
}

/// A lease: free, or held under the current epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lease {
    /// The epoch of the last claim.
    pub epoch: Epoch,
    /// Who holds it now.
    pub held: Option<Held>,
}

impl Lease {
    /// True while nobody else may take it.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.held.is_some_and(|held| now < held.until)
    }

    /// Takes it if it is free or has run out. The new epoch shuts out whoever held it before.
    pub fn acquire(self, owner: Owner, now: Timestamp, ttl: Duration) -> Result<Self, WorkError> {
        if let Some(held) = self.held
            && now < held.until
        {
            let what = format!("a lease of {}", held.owner);
            return Err(WorkError::Busy { what, until: Some(held.until) });
        }
        let held = Held { owner, until: now.after(ttl), cancel_requested: false };
        Ok(Self { epoch: self.epoch.next(), held: Some(held) })
    }

    /// Extends the hold of `epoch`. A late renewal is good as long as nobody took over meanwhile.
    pub fn renew(self, epoch: Epoch, now: Timestamp, ttl: Duration) -> Result<Self, WorkError> {
        self.check(epoch)?;
        let extend = |held: Held| Held {
            until: if held.cancel_requested { held.until } else { held.until.max(now.after(ttl)) },
            ..held
        };
        Ok(Self { held: self.held.map(extend), ..self })
    }

    /// May `epoch` write? Only if it is current **and** the lease is still held: after a release nobody may.
    pub fn check(&self, epoch: Epoch) -> Result<(), WorkError> {
        if self.held.is_some() && self.epoch == epoch {
            return Ok(());
        }
        Err(WorkError::Fenced { held: epoch, current: self.epoch })
    }

    /// Notes that somebody asked to cancel.
    #[must_use]
    pub fn cancel_requested(self) -> Self {
        Self { held: self.held.map(|held| Held { cancel_requested: true, ..held }), ..self }
    }

    /// Gives it back: the owner settled, or it is proven that the owner is gone.
    #[must_use]
    pub fn release(self) -> Self {
        Self { held: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Env;
    use crate::limits::LEASE_TTL;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn owner(seed: u64) -> Owner {
        let env = Env::simulated(seed);
        Owner { worker: env.id(), execution: env.id() }
    }

    #[test]
    fn a_free_lease_is_taken_with_a_new_epoch() {
        let lease = Lease::default().acquire(owner(1), at(0), LEASE_TTL).unwrap();
        assert_eq!(lease.epoch, Epoch::new(1));
        assert_eq!(lease.held.unwrap().until, at(30));
    }

    #[test]
    fn a_live_lease_is_refused_to_others_with_owner_and_expiry() {
        let lease = Lease::default().acquire(owner(1), at(0), LEASE_TTL).unwrap();
        let error = lease.acquire(owner(2), at(29), LEASE_TTL).unwrap_err();
        assert_eq!(error.code(), "busy");
        assert!(matches!(error, WorkError::Busy { until: Some(until), .. } if until == at(30)));
        assert!(error.to_string().contains(&owner(1).to_string()), "{error}");
    }

    #[test]
    fn the_owner_renews_with_its_epoch_and_nobody_else_does() {
        let lease = Lease::default().acquire(owner(1), at(0), LEASE_TTL).unwrap();
        assert_eq!(
            lease.renew(lease.epoch, at(10), LEASE_TTL).unwrap().held.unwrap().until,
            at(40)
        );
        assert_eq!(lease.renew(Epoch::new(7), at(10), LEASE_TTL).unwrap_err().code(), "fenced");
        let late = lease.renew(lease.epoch, at(99), LEASE_TTL).unwrap();
        assert_eq!(late.held.unwrap().until, at(129), "late, but nobody took over");
    }

    #[test]
    fn g07_a_lease_that_ran_out_goes_to_the_next_and_the_old_one_writes_nothing() {
        let old = Lease::default().acquire(owner(1), at(0), LEASE_TTL).unwrap();
        let new = old.acquire(owner(2), at(30), LEASE_TTL).unwrap();
        assert_eq!(new.epoch, old.epoch.next());
        assert_eq!(new.check(old.epoch).unwrap_err().code(), "fenced");
        assert!(new.renew(old.epoch, at(31), LEASE_TTL).is_err());
        assert_eq!(new.check(new.epoch), Ok(()));
    }

    #[test]
    fn a_released_lease_lets_nobody_write_not_even_the_last_epoch() {
        let lease = Lease::default().acquire(owner(1), at(0), LEASE_TTL).unwrap().release();
        assert!(!lease.is_live(at(0)));
        assert_eq!(lease.check(lease.epoch).unwrap_err().code(), "fenced");
    }

    #[test]
    fn g37_a_cancelled_lease_is_not_extended() {
        let lease = Lease::default().acquire(owner(1), at(0), LEASE_TTL).unwrap();
        let asked = lease.cancel_requested();
        assert_eq!(asked.renew(asked.epoch, at(20), LEASE_TTL), Ok(asked));
        assert!(!asked.is_live(at(30)));
    }

    #[test]
    fn times_at_the_edge_do_not_wrap() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(Epoch::new(u64::MAX).next(), Epoch::new(u64::MAX));
    }
}
