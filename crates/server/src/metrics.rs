//! What the server counts, and what it tells at `/metrics`.
//!
//! Requests are counted as they come. How much there is of everything is read from the database when somebody asks, in one
//! read, and kept for a moment. What only grows is counted from one position of the log to the next.

mod census;
mod text;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_engine::{EngineError, LATENCY_BOUNDS};

use self::census::Counted;
use self::text::{Exposition, Kind};
use crate::app::App;
use crate::operation::Operation;

/// The media type of the text.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of the histogram in seconds.
const BOUNDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The name under which requests to no operation are counted.
const NO_OPERATION: &str = "none";

/// What the server counts.
pub(crate) struct Metrics {
    operations: BTreeMap<&'static str, Requests>,
    counted: Counted,
    streams_open: Arc<AtomicU64>,
    connections_open: Arc<AtomicU64>,
    connections: AtomicU64,
    connections_refused: AtomicU64,
    accept_errors: AtomicU64,
    panics: AtomicU64,
}

#[derive(Default)]
struct Requests {
    by_status: Mutex<BTreeMap<u16, u64>>,
    by_bound: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

/// Something that is open; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<AtomicU64>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn open(count: &Arc<AtomicU64>) -> Open {
    count.fetch_add(1, Ordering::Relaxed);
    Open(Arc::clone(count))
}

impl Metrics {
    pub(crate) fn new(table: &[Operation]) -> Self {
        let ids = table.iter().map(|operation| operation.id).chain([NO_OPERATION]);
        Self {
            operations: ids.map(|id| (id, Requests::default())).collect(),
            counted: Counted::default(),
            streams_open: Arc::default(),
            connections_open: Arc::default(),
            connections: AtomicU64::default(),
            connections_refused: AtomicU64::default(),
            accept_errors: AtomicU64::default(),
            panics: AtomicU64::default(),
        }
    }

    /// Counts a request to an operation, or to none.
    pub(crate) fn answered(&self, operation: Option<&'static str>, status: u16, took: Duration) {
        let Some(requests) = self.operations.get(operation.unwrap_or(NO_OPERATION)) else { return };
        // Nothing that can fail happens under this lock.
        let mut by_status = requests.by_status.lock().unwrap_or_else(PoisonError::into_inner);
        *by_status.entry(status).or_default() += 1;
        drop(by_status);
        let seconds = took.as_secs_f64();
        let place = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        requests.by_bound[place].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        requests.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a stream while it is open.
    pub(crate) fn stream(&self) -> Open {
        open(&self.streams_open)
    }

    /// Counts a connection while it is open.
    pub(crate) fn connection(&self) -> Open {
        self.connections.fetch_add(1, Ordering::Relaxed);
        open(&self.connections_open)
    }

    /// Counts a connection that was one too many.
    pub(crate) fn connection_refused(&self) {
        self.connections_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that could not be accepted.
    pub(crate) fn accept_failed(&self) {
        self.accept_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an operation that panicked.
    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    fn write_requests(&self, out: &mut Exposition) {
        out.family("provost_http_requests_total", Kind::Counter, "Requests that were answered.");
        for (id, requests) in &self.operations {
            let by_status = requests.by_status.lock().unwrap_or_else(PoisonError::into_inner);
            for (status, count) in &*by_status {
                out.sample(&[("operation", id), ("status", &status.to_string())], *count as f64);
            }
        }
        let help = "Time until the head of an answer.";
        out.family("provost_http_request_duration_seconds", Kind::Histogram, help);
        for (id, requests) in &self.operations {
            let counts: Vec<u64> =
                requests.by_bound.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            if counts.iter().any(|count| *count > 0) {
                let sum = requests.micros.load(Ordering::Relaxed) as f64 / 1e6;
                out.histogram(&[("operation", id)], &BOUNDS, &counts, sum);
            }
        }
    }

    fn write_connections(&self, out: &mut Exposition) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let gauges = [
            ("provost_streams", "Event streams that are open.", &self.streams_open),
            ("provost_connections", "Connections that are open.", &self.connections_open),
        ];
        for (name, help, count) in gauges {
            out.one(name, Kind::Gauge, help, load(count));
        }
        let refused = "Connections that were closed at once because there were too many.";
        let counters = [
            ("provost_connections_accepted_total", "Connections.", &self.connections),
            ("provost_connections_refused_total", refused, &self.connections_refused),
            ("provost_accept_errors_total", "Failures to accept.", &self.accept_errors),
            ("provost_http_panics_total", "Operations that panicked.", &self.panics),
        ];
        for (name, help, count) in counters {
            out.one(name, Kind::Counter, help, load(count));
        }
    }
}

/// Everything that is told at `/metrics`.
pub(crate) async fn render(app: &App) -> Result<String, EngineError> {
    let metrics = &app.shared.metrics;
    let seen = metrics.counted.look(app.engine()).await?;
    let mut out = Exposition::default();
    out.family("provost_build_info", Kind::Gauge, "What runs here.");
    out.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    metrics.write_requests(&mut out);
    metrics.write_connections(&mut out);
    seen.write(&mut out);
    let vitals = app.engine().vitals();
    let fenced = "Attempts whose write was refused because another worker had taken their run.";
    out.one("provost_fenced_writes_total", Kind::Counter, fenced, vitals.fenced_writes as f64);
    let first = "Time from asking a model until the first piece of its answer.";
    out.family("provost_first_token_seconds", Kind::Histogram, first);
    out.histogram(&[], &LATENCY_BOUNDS, &vitals.first_token.counts, vitals.first_token.seconds);
    let store = app.engine().store().stats();
    out.one("provost_store_commits_total", Kind::Counter, "Commits.", store.commits as f64);
    out.one(
        "provost_store_writes_total",
        Kind::Counter,
        "Writes, many of which share a commit.",
        store.jobs as f64,
    );
    out.one("provost_store_reads_total", Kind::Counter, "Reads.", store.reads as f64);
    let failed = "Groups of writes that failed as a whole.";
    out.one("provost_store_failed_groups_total", Kind::Counter, failed, store.groups_failed as f64);
    out.one("provost_store_waiting_writes", Kind::Gauge, "Writes that wait.", store.waiting as f64);
    Ok(out.finish())
}
