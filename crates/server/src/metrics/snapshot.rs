//! Cached metrics of the database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;
use provost_core::{DurableEventKind, Timestamp, Usage};
use provost_engine::{Engine, EngineError, LatencyHistogram};
use provost_store::query::metrics::{self, Backlog, ClassMetrics, QueueMetrics};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::family::{Sample, counter, gauge, histogram, sample};

/// Minimum lifetime of a snapshot.
const TTL_MIN: Duration = Duration::from_secs(1);
/// Lifetime of a snapshot as a multiple of its read time, so that reads use a small share of the time.
const TTL_FACTOR: u32 = 20;

/// Counters since the first snapshot.
#[derive(Debug, Clone, Default)]
struct Totals {
    /// Position up to which events are counted. `None` before the first snapshot.
    pos: Option<u64>,
    events: BTreeMap<String, u64>,
    agents: BTreeMap<String, AgentUsage>,
    claims: LatencyHistogram,
}

#[derive(Debug, Clone, Default)]
struct AgentUsage {
    runs: u64,
    cost_micros: u64,
    usage: Usage,
}

/// Values that were read from the database.
#[derive(Debug)]
pub(super) struct Snapshot {
    census: QueueMetrics,
    totals: Totals,
    until: Instant,
}

/// Cache of the last snapshot. It limits how often the database is read.
#[derive(Default)]
pub(super) struct SnapshotCache {
    // Locked during a read, so that concurrent scrapes share its result.
    last: Mutex<Option<Arc<Snapshot>>>,
}

impl SnapshotCache {
    /// Returns the cached snapshot, or a new one if it has expired.
    pub(super) async fn read(&self, engine: &Engine) -> Result<Arc<Snapshot>, EngineError> {
        let mut last = self.last.lock().await;
        if let Some(snapshot) = last.as_ref().filter(|snapshot| Instant::now() < snapshot.until) {
            return Ok(Arc::clone(snapshot));
        }
        let started = Instant::now();
        let mut totals = last.as_ref().map(|snapshot| snapshot.totals.clone()).unwrap_or_default();
        let read = engine.store().read(move |tx| {
            let census = metrics::collect(tx)?;
            totals.advance(tx, census.last_pos)?;
            Ok::<_, EngineError>((census, totals))
        });
        let (census, totals) = read.await?;
        let read_time = started.elapsed();
        let until = Instant::now() + TTL_MIN.max(read_time * TTL_FACTOR);
        let snapshot = Arc::new(Snapshot { census, totals, until });
        *last = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }
}

impl Totals {
    /// Counts the events up to a position. The first call only records the position.
    fn advance(&mut self, tx: &mut provost_store::Tx<'_>, to: u64) -> Result<(), EngineError> {
        if let Some(after) = self.pos {
            for (kind, count) in metrics::events(tx, after, to)? {
                *self.events.entry(kind).or_default() += count;
            }
            for (agent, cost_micros, usage) in metrics::ended_runs(tx, after, to)? {
                let total = self.agents.entry(agent).or_default();
                total.runs += 1;
                total.cost_micros = total.cost_micros.saturating_add(cost_micros);
                let usage = usage.and_then(|usage| serde_json::from_str::<Usage>(&usage).ok());
                let usage = usage.unwrap_or_default();
                total.usage.input = total.usage.input.saturating_add(usage.input);
                total.usage.output = total.usage.output.saturating_add(usage.output);
            }
            for millis in metrics::claim_delays(tx, after, to)? {
                self.claims.add(Duration::from_millis(millis));
            }
        }
        self.pos = Some(to);
        Ok(())
    }
}

impl Snapshot {
    /// Returns the snapshot as metric families.
    pub(super) fn families(&self) -> Vec<MetricFamily> {
        let mut families = self.class_families();
        families.extend(self.waiting_families());
        families.extend(self.total_families());
        families.extend(self.agent_families());
        families
    }

    fn age(&self, oldest: Option<Timestamp>) -> f64 {
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
                of_classes(&|class| self.age(class.queued.oldest)),
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
        let age = |waiting: Backlog| one(self.age(waiting.oldest));
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

    fn total_families(&self) -> Vec<MetricFamily> {
        let events = &self.totals.events;
        let of = |kind: DurableEventKind| {
            one(events.get(kind.as_str()).copied().unwrap_or_default() as f64)
        };
        let kinds = events.iter().map(|(kind, count)| sample(&[("kind", kind)], *count as f64));
        let last = "Position of the newest event in the log.";
        let log = "Events since the first scrape of this server, by kind.";
        let lost = "Expired leases since the first scrape of this server.";
        let claims = "Started attempts since the first scrape of this server.";
        let wait = "Time from due to claimed of runs since the first scrape of this server.";
        vec![
            gauge("provost_log_position", last, one(self.census.last_pos as f64)),
            counter("provost_log_events_total", log, kinds.collect()),
            counter("provost_lease_losses_total", lost, of(DurableEventKind::WorkerLost)),
            counter("provost_claims_total", claims, of(DurableEventKind::AttemptStarted)),
            histogram("provost_claim_latency_seconds", wait, &self.totals.claims),
        ]
    }

    fn agent_families(&self) -> Vec<MetricFamily> {
        let of_agents = |value: &dyn Fn(&AgentUsage) -> f64| -> Vec<Sample> {
            let agents = self.totals.agents.iter();
            agents.map(|(agent, usage)| sample(&[("agent", agent)], value(usage))).collect()
        };
        let cost = "Cost of ended runs in the currency of the ledger.";
        vec![
            counter(
                "provost_agent_runs_total",
                "Ended runs.",
                of_agents(&|usage| usage.runs as f64),
            ),
            counter(
                "provost_agent_input_tokens_total",
                "Input tokens of ended runs.",
                of_agents(&|usage| usage.usage.input as f64),
            ),
            counter(
                "provost_agent_output_tokens_total",
                "Output tokens of ended runs.",
                of_agents(&|usage| usage.usage.output as f64),
            ),
            counter(
                "provost_agent_cost_total",
                cost,
                of_agents(&|usage| usage.cost_micros as f64 / 1e6),
            ),
        ]
    }
}

fn one(value: f64) -> Vec<Sample> {
    vec![sample(&[], value)]
}

fn by_label(label: &str, counts: &[(String, u64)]) -> Vec<Sample> {
    counts.iter().map(|(value, count)| sample(&[(label, value)], *count as f64)).collect()
}
