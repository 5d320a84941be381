//! Metrics of the server in the text format of Prometheus at `/metrics`.
//!
//! Requests and connections are counted as they happen. Gauges of the database are read in one transaction when Prometheus
//! scrapes, and cached briefly; every server with the same database reports the same. Counters count the work of this process.

mod family;
mod snapshot;

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};
use provost_api::Problem;
use provost_core::DurableEventKind;
use provost_engine::EngineMetrics;
use provost_store::{CommittedChanges, EndedRuns, StoreStats};

use self::family::{Sample, counter, gauge, histogram, sample};
use self::snapshot::SnapshotCache;
use crate::app::App;
use crate::error;

/// Media type of the text format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bucket bounds of the latency histogram, in seconds.
const BOUNDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Value of the label `operation` for requests without an operation.
const NO_OPERATION: &str = "none";

/// Metrics that this process counts.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    latency: HistogramVec,
    streams: IntGauge,
    connections: IntGauge,
    connections_accepted: IntCounter,
    connections_refused: IntCounter,
    accept_errors: IntCounter,
    panics: IntCounter,
    snapshots: SnapshotCache,
}

/// Counts an open object until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenGuard(IntGauge);

impl OpenGuard {
    /// Creates and registers the metrics of this process.
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let latency = HistogramOpts::new(
            "provost_http_request_duration_seconds",
            "Time until a response starts.",
        );
        let requests = Opts::new("provost_http_requests_total", "Completed requests.");
        let refused = "Connections that were rejected because of the connection limit.";
        Ok(Self {
            requests: register(&registry, IntCounterVec::new(requests, &["operation", "status"])?)?,
            latency: register(
                &registry,
                HistogramVec::new(latency.buckets(BOUNDS.to_vec()), &["operation"])?,
            )?,
            streams: open_gauge(&registry, "provost_streams", "Open event streams.")?,
            connections: open_gauge(&registry, "provost_connections", "Open connections.")?,
            connections_accepted: total(
                &registry,
                "provost_connections_accepted_total",
                "Accepted connections.",
            )?,
            connections_refused: total(&registry, "provost_connections_refused_total", refused)?,
            accept_errors: total(
                &registry,
                "provost_accept_errors_total",
                "Connections that could not be accepted.",
            )?,
            panics: total(&registry, "provost_http_panics_total", "Operations that panicked.")?,
            snapshots: SnapshotCache::default(),
            registry,
        })
    }

    /// Counts a completed request. `operation` is `None` if the request matched no operation.
    pub(crate) fn request_completed(&self, operation: Option<&str>, status: u16, took: Duration) {
        let operation = operation.unwrap_or(NO_OPERATION);
        self.requests.with_label_values(&[operation, &status.to_string()]).inc();
        self.latency.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    /// Counts a stream until the guard is dropped.
    pub(crate) fn stream(&self) -> OpenGuard {
        OpenGuard::new(&self.streams)
    }

    /// Counts a connection until the guard is dropped.
    pub(crate) fn connection(&self) -> OpenGuard {
        self.connections_accepted.inc();
        OpenGuard::new(&self.connections)
    }

    /// Counts a connection that was rejected because of the limit.
    pub(crate) fn connection_refused(&self) {
        self.connections_refused.inc();
    }

    /// Counts a connection that could not be accepted.
    pub(crate) fn accept_failed(&self) {
        self.accept_errors.inc();
    }

    /// Counts an operation that panicked.
    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }
}

/// Registers a metric and returns it.
fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn total(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    register(registry, IntCounter::new(name, help)?)
}

fn open_gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    register(registry, IntGauge::new(name, help)?)
}

/// Reads the metrics of the database, at most once per interval, and returns all metrics as text.
pub(crate) async fn render(app: &App) -> Result<String, Problem> {
    let metrics = app.metrics();
    let snapshot = metrics
        .snapshots
        .read(app.engine())
        .await
        .map_err(|error| error::from_engine(error.into()))?;
    let mut families = metrics.registry.gather();
    families.extend(snapshot.families());
    families.extend(process_families(app));
    families.retain(|family| !family.get_metric().is_empty());
    TextEncoder::new().encode_to_string(&families).map_err(|error| error::internal(&error))
}

/// Returns the metrics of the engine and the store of this process.
fn process_families(app: &App) -> Vec<MetricFamily> {
    let store = app.engine().store();
    let mut families = engine_families(&app.engine().metrics());
    families.extend(store_families(&store.stats()));
    families.extend(change_families(&store.committed_changes()));
    families
}

fn engine_families(engine: &EngineMetrics) -> Vec<MetricFamily> {
    let build = sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let fenced = "Writes that were rejected because another worker had claimed the run.";
    let first = "Time from a model request to the first token of its response.";
    let claims = "Attempts that the workers of this process started.";
    let wait = "Time from due to claimed of these attempts.";
    vec![
        gauge("provost_build_info", "Version of the server.", vec![build]),
        counter("provost_fenced_writes_total", fenced, one(engine.fenced_writes)),
        histogram("provost_first_token_seconds", first, &engine.first_token),
        counter("provost_claims_total", claims, one(engine.claims.count())),
        histogram("provost_claim_latency_seconds", wait, &engine.claims),
    ]
}

fn store_families(store: &StoreStats) -> Vec<MetricFamily> {
    let failed = "Group commits that failed.";
    let writes = "Database writes. Several writes share a commit.";
    vec![
        counter("provost_store_commits_total", "Database commits.", one(store.commits)),
        counter("provost_store_writes_total", writes, one(store.jobs)),
        counter("provost_store_reads_total", "Database reads.", one(store.reads)),
        counter("provost_store_failed_groups_total", failed, one(store.groups_failed)),
        gauge("provost_store_waiting_writes", "Database writes in the queue.", one(store.waiting)),
    ]
}

/// Returns counters of the changes that this process committed.
fn change_families(changes: &CommittedChanges) -> Vec<MetricFamily> {
    let kinds = changes.events.iter();
    let kinds = kinds.map(|(kind, count)| sample(&[("kind", kind)], *count as f64)).collect();
    let lost = changes.events.get(DurableEventKind::WorkerLost.as_str());
    let of_agents = |value: &dyn Fn(&EndedRuns) -> f64| -> Vec<Sample> {
        let agents = changes.ended_runs.iter();
        agents.map(|(agent, ended)| sample(&[("agent", agent)], value(ended))).collect()
    };
    let log = "Events that this process stored, by kind.";
    let losses = "Expired leases that this process ended.";
    let runs = "Runs that this process ended.";
    let input = "Input tokens of these runs.";
    let output = "Output tokens of these runs.";
    let cost = "Cost of these runs in the currency of the ledger.";
    vec![
        counter("provost_log_events_total", log, kinds),
        counter("provost_lease_losses_total", losses, one(lost.copied().unwrap_or_default())),
        counter("provost_agent_runs_total", runs, of_agents(&|ended| ended.count as f64)),
        counter(
            "provost_agent_input_tokens_total",
            input,
            of_agents(&|ended| ended.usage.input as f64),
        ),
        counter(
            "provost_agent_output_tokens_total",
            output,
            of_agents(&|ended| ended.usage.output as f64),
        ),
        counter(
            "provost_agent_cost_total",
            cost,
            of_agents(&|ended| ended.cost_micros as f64 / 1e6),
        ),
    ]
}

fn one(value: u64) -> Vec<Sample> {
    vec![sample(&[], value as f64)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_registered_once() {
        let metrics = Metrics::new().unwrap();
        metrics.request_completed(None, 404, Duration::ZERO);
        assert_eq!(metrics.registry.gather().len(), 8);
        let open = metrics.stream();
        assert_eq!(metrics.streams.get(), 1);
        drop(open);
        assert_eq!(metrics.streams.get(), 0);
    }
}
