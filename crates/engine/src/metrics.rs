//! Metrics of this process: counters and histograms that only grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::Engine;

/// Upper bounds of the histogram buckets, in seconds. One more bucket counts longer times.
pub const LATENCY_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Histogram of durations.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyHistogram {
    /// Number of durations per bucket: one for each of [`LATENCY_BOUNDS`], and one for longer durations.
    pub counts: [u64; LATENCY_BOUNDS.len() + 1],
    /// Sum of all durations, in seconds.
    pub seconds: f64,
}

impl LatencyHistogram {
    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Metrics of this process since its start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineMetrics {
    /// Attempts with a rejected write, because another attempt had the run.
    pub fenced_writes: u64,
    /// Time from a model call to the first part of its response.
    pub first_token: LatencyHistogram,
    /// Time from due to claimed, one per claim.
    pub claims: LatencyHistogram,
}

/// Atomic counters behind the metrics.
#[derive(Debug, Default)]
pub(crate) struct MetricsCounters {
    fenced: AtomicU64,
    first_token: AtomicHistogram,
    claims: AtomicHistogram,
}

#[derive(Debug, Default)]
struct AtomicHistogram {
    counts: [AtomicU64; LATENCY_BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl AtomicHistogram {
    fn add(&self, took: Duration) {
        self.counts[bucket(took)].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn read(&self) -> LatencyHistogram {
        LatencyHistogram {
            counts: self.counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            seconds: self.micros.load(Ordering::Relaxed) as f64 / 1e6,
        }
    }
}

impl MetricsCounters {
    /// Counts an attempt with a fenced write.
    pub(crate) fn fenced(&self) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the time to the first part of a response.
    pub(crate) fn first_token(&self, took: Duration) {
        self.first_token.add(took);
    }

    /// Records a committed claim and the time that its run waited.
    pub(crate) fn claimed(&self, waited: Duration) {
        self.claims.add(waited);
    }

    /// Returns the current values.
    pub(crate) fn read(&self) -> EngineMetrics {
        EngineMetrics {
            fenced_writes: self.fenced.load(Ordering::Relaxed),
            first_token: self.first_token.read(),
            claims: self.claims.read(),
        }
    }
}

/// Returns the index of the histogram bucket of a duration.
fn bucket(took: Duration) -> usize {
    let seconds = took.as_secs_f64();
    LATENCY_BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(LATENCY_BOUNDS.len())
}

impl Engine {
    /// Returns the metrics of this process.
    pub fn metrics(&self) -> EngineMetrics {
        self.inner.live_events.metrics.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_at_its_bound() {
        let latencies = AtomicHistogram::default();
        for millis in [5, 6, 300_000, 300_001] {
            latencies.add(Duration::from_millis(millis));
        }
        let latencies = latencies.read();
        assert_eq!(latencies.counts[..2], [1, 1]);
        assert_eq!(latencies.counts[13..], [1, 1]);
        assert!((latencies.seconds - 600.012).abs() < 1e-9);
    }
}
