//! Cached metrics of the database.

use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;
use provost_core::Timestamp;
use provost_engine::Engine;
use provost_store::query::QueryError;
use provost_store::query::metrics::{self, Backlog, ClassMetrics, QueueMetrics};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::family::{Sample, gauge, sample};

/// Minimum lifetime of a snapshot.
const TTL_MIN: Duration = Duration::from_secs(1);
/// Lifetime of a snapshot as a multiple of its read time, so that reads use a small share of the time.
const TTL_FACTOR: u32 = 20;

/// Values that were read from the database.
#[derive(Debug)]
pub(super) struct Snapshot {
    census: QueueMetrics,
    until: Instant,
}

/// Cache of the last snapshot. It limits how often the database is read.
#[derive(Default)]
pub(super) struct SnapshotCache {
    // Locked during a read, so that concurrent scrapes share its result.
    last: Mutex<Option<Arc<Snapshot>>>,
}

impl SnapshotCache {
    /// Returns the cached snapshot, or reads a new one if it has expired.
    pub(super) async fn read(&self, engine: &Engine) -> Result<Arc<Snapshot>, QueryError> {
        let mut last = self.last.lock().await;
        if let Some(snapshot) = last.as_ref().filter(|snapshot| Instant::now() < snapshot.until) {
            return Ok(Arc::clone(snapshot));
        }
        let started = Instant::now();
        let census = metrics::read(engine.store()).await?;
        let read_time = started.elapsed();
        let until = Instant::now() + TTL_MIN.max(read_time * TTL_FACTOR);
        let snapshot = Arc::new(Snapshot { census, until });
        *last = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

impl Snapshot {
    /// Returns the snapshot as metric families.
    pub(super) fn families(&self) -> Vec<MetricFamily> {
        let mut families = self.class_families();
        families.extend(self.waiting_families());
        let last = "Position of the newest event in the log.";
        families.push(gauge("provost_log_position", last, one(self.census.last_pos as f64)));
        families
    }

    /// Returns the seconds since a time. Zero without a time.
    fn age_seconds(&self, oldest: Option<Timestamp>) -> f64 {
        oldest.map_or(0.0, |oldest| self.census.at.since(oldest).as_secs_f64())
    }

    fn class_families(&self) -> Vec<MetricFamily> {
        let of_classes = |value: &dyn Fn(&ClassMetrics) -> f64| -> Vec<Sample> {
            let classes = self.census.classes.iter();
            let labelled = classes.map(|class| {
                let labels = [("namespace", class.namespace.as_str()), ("class", &class.key)];
                sample(&labels, value(class))
            });
            labelled.collect()
        };
        let oldest = "Age of the oldest run that is ready to start.";
        let parked = "Parked runs by reason.";
        vec![
            gauge(
                "provost_queue_runs",
                "Runs that are ready to start.",
                of_classes(&|class| class.queued.count as f64),
            ),
            gauge(
                "provost_queue_oldest_age_seconds",
                oldest,
                of_classes(&|class| self.age_seconds(class.queued.oldest)),
            ),
            gauge(
                "provost_leased_runs",
                "Runs that a worker executes.",
                of_classes(&|class| class.running as f64),
            ),
            gauge(
                "provost_class_slots",
                "Concurrency limit of the execution class.",
                of_classes(&|class| class.max_running as f64),
            ),
            gauge("provost_parked_runs", parked, by_label("reason", &self.census.parked)),
        ]
    }

    fn waiting_families(&self) -> Vec<MetricFamily> {
        let census = &self.census;
        let count = |waiting: Backlog| one(waiting.count as f64);
        let age = |waiting: Backlog| one(self.age_seconds(waiting.oldest));
        let open = "Pending approvals.";
        let pending = "Pending deliveries.";
        let kept = "Stored deliveries by state.";
        let posts = "Stored webhook deliveries by state.";
        let unknown = "Effects of open runs with an unknown outcome.";
        vec![
            gauge("provost_open_approvals", open, count(census.approvals)),
            gauge(
                "provost_open_approvals_oldest_age_seconds",
                "Age of the oldest pending approval.",
                age(census.approvals),
            ),
            gauge("provost_pending_inputs", "Messages that no run has read.", count(census.inputs)),
            gauge(
                "provost_pending_inputs_oldest_age_seconds",
                "Age of the oldest message that no run has read.",
                age(census.inputs),
            ),
            gauge("provost_pending_deliveries", pending, count(census.undelivered)),
            gauge(
                "provost_pending_deliveries_oldest_age_seconds",
                "Age of the oldest pending delivery.",
                age(census.undelivered),
            ),
            gauge("provost_deliveries", kept, by_label("state", &census.deliveries)),
            gauge("provost_webhook_posts", posts, by_label("state", &census.posts)),
            gauge("provost_workers", "Active workers.", one(census.workers as f64)),
            gauge("provost_unknown_effects", unknown, one(census.unknown_effects as f64)),
        ]
    }
}

fn one(value: f64) -> Vec<Sample> {
    vec![sample(&[], value)]
}

fn by_label(label: &str, counts: &[(String, u64)]) -> Vec<Sample> {
    counts.iter().map(|(value, count)| sample(&[(label, value)], *count as f64)).collect()
}
