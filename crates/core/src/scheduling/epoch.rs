//! The fencing token of a claim.
//!
//! A run is claimed under a new epoch. Every write of its owner carries the epoch and fails if another one is current,
//! so a worker that slept past its lease cannot overwrite newer work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of claims, used as the fencing token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// Creates the epoch from its stored number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number, for a column.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch of the next claim.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_epoch_does_not_wrap() {
        assert_eq!(Epoch::new(1).next(), Epoch::new(2));
        assert_eq!(Epoch::new(u64::MAX).next(), Epoch::new(u64::MAX));
    }
}
