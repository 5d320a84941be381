//! How much there is of everything in the database, as of a moment ago.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::proto::MetricFamily;
use provost_core::{DurableEventKind, Timestamp, Usage};
use provost_engine::{Engine, EngineError, LatencyHistogram};
use provost_store::query::metrics::{self, Census, ClassCensus, Waiting};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::family::{Sample, counter, gauge, histogram, sample};

/// How long a snapshot is used at least.
const FRESH: Duration = Duration::from_secs(1);
/// A snapshot is used for this many times as long as it took to read, so that reading takes a small share of the time.
const FRESH_FACTOR: u32 = 20;

/// What only grows, counted since the first snapshot.
#[derive(Debug, Clone, Default)]
struct Totals {
    /// Everything up to this position is counted; nothing before the first look.
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

/// What was read from the database.
#[derive(Debug)]
pub(super) struct Snapshot {
    census: Census,
    totals: Totals,
    until: Instant,
}

/// Reads the database, but not too often.
#[derive(Default)]
pub(super) struct SnapshotCache {
    // Held while the database is read: scrapes that come meanwhile share the result.
    last: Mutex<Option<Arc<Snapshot>>>,
}

impl SnapshotCache {
    /// Returns a snapshot that is not older than it may be.
    pub(super) async fn read(&self, engine: &Engine) -> Result<Arc<Snapshot>, EngineError> {
        let mut last = self.last.lock().await;
        if let Some(seen) = last.as_ref().filter(|seen| Instant::now() < seen.until) {
            return Ok(Arc::clone(seen));
        }
        let started = Instant::now();
        let mut totals = last.as_ref().map(|seen| seen.totals.clone()).unwrap_or_default();
        let read = engine.store().read(move |tx| {
            let census = metrics::take(tx)?;
            totals.advance(tx, census.last_pos)?;
            Ok::<_, EngineError>((census, totals))
        });
        let (census, totals) = read.await?;
        let took = started.elapsed();
        let until = Instant::now() + FRESH.max(took * FRESH_FACTOR);
        let seen = Arc::new(Snapshot { census, totals, until });
        *last = Some(Arc::clone(&seen));
        Ok(seen)
    }
}

impl Totals {
    /// Counts the events up to a position. The first look only finds out where to begin.
    fn advance(&mut self, tx: &mut provost_store::Tx<'_>, to: u64) -> Result<(), EngineError> {
        if let Some(after) = self.pos {
            for (kind, count) in metrics::events(tx, after, to)? {
                *self.events.entry(kind).or_default() += count;
            }
            for (agent, cost_micros, usage) in metrics::ended(tx, after, to)? {
                let total = self.agents.entry(agent).or_default();
                total.runs += 1;
                total.cost_micros = total.cost_micros.saturating_add(cost_micros);
                let usage = usage.and_then(|usage| serde_json::from_str::<Usage>(&usage).ok());
                let usage = usage.unwrap_or_default();
                total.usage.input = total.usage.input.saturating_add(usage.input);
                total.usage.output = total.usage.output.saturating_add(usage.output);
            }
            for millis in metrics::claim_waits(tx, after, to)? {
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
        let of_classes = |value: &dyn Fn(&ClassCensus) -> f64| -> Vec<Sample> {
            let classes = self.census.classes.iter();
            let labelled = classes.map(|class| {
                let labels = [("namespace", class.namespace.as_str()), ("class", &class.key)];
                sample(&labels, value(class))
            });
            labelled.collect()
        };
        let oldest = "Age of the oldest run that could start now.";
        let parked = "Runs that wait for something, by what for.";
        vec![
            gauge(
                "provost_queue_runs",
                "Runs that could start now.",
                of_classes(&|class| class.queued.count as f64),
            ),
            gauge(
                "provost_queue_oldest_age_seconds",
                oldest,
                of_classes(&|class| self.age(class.queued.oldest)),
            ),
            gauge(
                "provost_leased_runs",
                "Runs at work.",
                of_classes(&|class| class.running as f64),
            ),
            gauge(
                "provost_class_slots",
                "Runs that may work at once.",
                of_classes(&|class| class.desired as f64),
            ),
            gauge("provost_parked_runs", parked, by_label("reason", &self.census.parked)),
        ]
    }

    fn waiting_families(&self) -> Vec<MetricFamily> {
        let census = &self.census;
        let count = |what: Waiting| one(what.count as f64);
        let age = |what: Waiting| one(self.age(what.oldest));
        let open = "Questions that nobody has answered.";
        let pending = "Answers that are to be sent out.";
        let kept = "Answers to send out that are kept, by state.";
        let posts = "Posts to webhooks that are kept, by state.";
        let unknown = "Effects of open runs of which nobody knows whether they happened.";
        vec![
            gauge("provost_open_approvals", open, count(census.approvals)),
            gauge(
                "provost_open_approvals_oldest_age_seconds",
                "Age of the oldest open question.",
                age(census.approvals),
            ),
            gauge(
                "provost_pending_inputs",
                "Messages that no run has taken in.",
                count(census.inputs),
            ),
            gauge(
                "provost_pending_inputs_oldest_age_seconds",
                "Age of the oldest of them.",
                age(census.inputs),
            ),
            gauge("provost_pending_deliveries", pending, count(census.undelivered)),
            gauge(
                "provost_pending_deliveries_oldest_age_seconds",
                "Age of the oldest of them.",
                age(census.undelivered),
            ),
            gauge("provost_deliveries", kept, by_label("state", &census.deliveries)),
            gauge("provost_webhook_posts", posts, by_label("state", &census.posts)),
            gauge("provost_workers", "Nodes that are alive.", one(census.workers as f64)),
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
        let log = "Events since this server was first asked, by kind.";
        let lost =
            "Runs that lost their worker and were taken back since this server was first asked.";
        let claims = "Attempts that were started since this server was first asked.";
        let wait =
            "Time that runs were due until a worker took them, since this server was first asked.";
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
        let cost = "Cost of runs that ended, in units of the ledger's currency.";
        vec![
            counter(
                "provost_agent_runs_total",
                "Runs that ended.",
                of_agents(&|usage| usage.runs as f64),
            ),
            counter(
                "provost_agent_input_tokens_total",
                "Tokens read by runs that ended.",
                of_agents(&|usage| usage.usage.input as f64),
            ),
            counter(
                "provost_agent_output_tokens_total",
                "Tokens written by runs that ended.",
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
