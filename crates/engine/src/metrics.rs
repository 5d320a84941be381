//! What the work of this process is like, in numbers that only grow: for whoever watches a service.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::Engine;

/// Bounds of times in seconds; what took longer than the last one has a place of its own.
pub const LATENCY_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// How often something took how long.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Latencies {
    /// One number for each of [`LATENCY_BOUNDS`], and one for what is beyond.
    pub counts: [u64; LATENCY_BOUNDS.len() + 1],
    /// All times together, in seconds.
    pub seconds: f64,
}

impl Latencies {
    /// Counts one time.
    pub fn add(&mut self, took: Duration) {
        self.counts[place(took)] += 1;
        self.seconds += took.as_secs_f64();
    }
}

/// What this process has seen since it was started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Vitals {
    /// Attempts whose write was refused because somebody else had the run.
    pub fenced_writes: u64,
    /// The time from when a model was asked until the first piece of its answer.
    pub first_token: Latencies,
}

/// The numbers as they grow.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    fenced: AtomicU64,
    counts: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Pulse {
    /// Counts an attempt whose write was refused.
    pub(crate) fn fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the first piece of an answer.
    pub(crate) fn first_token(&self, took: Duration) {
        self.counts[place(took)].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn read(&self) -> Vitals {
        let first_token = Latencies {
            counts: self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            seconds: self.micros.load(Ordering::Relaxed) as f64 / 1e6,
        };
        Vitals { fenced_writes: self.fenced.load(Ordering::Relaxed), first_token }
    }
}

fn place(took: Duration) -> usize {
    let seconds = took.as_secs_f64();
    LATENCY_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS.len())
}

impl Engine {
    /// What the work of this process is like.
    pub fn vitals(&self) -> Vitals {
        self.shared.tap.pulse.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_at_its_bound() {
        let mut latencies = Latencies::default();
        for millis in [5, 6, 300_000, 300_001] {
            latencies.add(Duration::from_millis(millis));
        }
        assert_eq!(latencies.counts[..2], [1, 1]);
        assert_eq!(latencies.counts[13..], [1, 1]);
        assert!((latencies.seconds - 600.012).abs() < 1e-9);
    }
}
