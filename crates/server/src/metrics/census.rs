//! What the database says when somebody asks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{Timestamp, Usage};
use provost_engine::{Engine, EngineError, LATENCY_BOUNDS, Latencies};
use provost_store::row::census::{self, Census, Waiting};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::text::{Exposition, Kind};

/// How long what was seen is told again.
const FRESH: Duration = Duration::from_secs(1);
/// What was seen is told again for so many times as long as it took to look, so that looking takes a small share of the time.
const FRESH_FACTOR: u32 = 20;
/// The event of a run whose worker is lost.
const WORKER_LOST: &str = "worker_lost";
/// The event of a run that somebody took.
const ATTEMPT_STARTED: &str = "attempt_started";

/// What only grows, as far as it was counted.
#[derive(Debug, Clone, Default)]
struct Totals {
    /// Everything up to this position is counted; nothing before the first look.
    pos: Option<u64>,
    events: BTreeMap<String, u64>,
    agents: BTreeMap<String, Spent>,
    claims: Latencies,
}

#[derive(Debug, Clone, Default)]
struct Spent {
    runs: u64,
    cost_micros: u64,
    usage: Usage,
}

/// What was seen in the database.
#[derive(Debug)]
pub(super) struct Seen {
    census: Census,
    totals: Totals,
    until: Instant,
}

/// Looks into the database, but not too often.
#[derive(Default)]
pub(super) struct Counted {
    // Held while the database is read: whoever asks meanwhile gets the same answer.
    last: Mutex<Option<Arc<Seen>>>,
}

impl Counted {
    /// What is there, as of a moment ago.
    pub(super) async fn look(&self, engine: &Engine) -> Result<Arc<Seen>, EngineError> {
        let mut last = self.last.lock().await;
        if let Some(seen) = last.as_ref().filter(|seen| Instant::now() < seen.until) {
            return Ok(Arc::clone(seen));
        }
        let started = Instant::now();
        let mut totals = last.as_ref().map(|seen| seen.totals.clone()).unwrap_or_default();
        let read = engine.store().read(move |tx| {
            let census = census::take(tx)?;
            totals.count(tx, census.last_pos)?;
            Ok::<_, EngineError>((census, totals))
        });
        let (census, totals) = read.await?;
        let took = started.elapsed();
        let until = Instant::now() + FRESH.max(took * FRESH_FACTOR);
        let seen = Arc::new(Seen { census, totals, until });
        *last = Some(Arc::clone(&seen));
        Ok(seen)
    }
}

impl Totals {
    /// Counts the events up to a position. The first look only finds out where to begin.
    fn count(&mut self, tx: &mut provost_store::Tx<'_>, to: u64) -> Result<(), EngineError> {
        if let Some(after) = self.pos {
            for (kind, count) in census::events(tx, after, to)? {
                *self.events.entry(kind).or_default() += count;
            }
            for (agent, cost_micros, usage) in census::ended(tx, after, to)? {
                let spent = self.agents.entry(agent).or_default();
                spent.runs += 1;
                spent.cost_micros = spent.cost_micros.saturating_add(cost_micros);
                let usage = usage.and_then(|usage| serde_json::from_str::<Usage>(&usage).ok());
                let usage = usage.unwrap_or_default();
                spent.usage.input = spent.usage.input.saturating_add(usage.input);
                spent.usage.output = spent.usage.output.saturating_add(usage.output);
            }
        }
        if let Some(after) = self.pos {
            for millis in census::claim_waits(tx, after, to)? {
                self.claims.add(Duration::from_millis(millis));
            }
        }
        self.pos = Some(to);
        Ok(())
    }
}

impl Seen {
    pub(super) fn write(&self, out: &mut Exposition) {
        self.write_queues(out);
        self.write_waiting(out);
        self.write_totals(out);
    }

    fn age(&self, oldest: Option<Timestamp>) -> f64 {
        oldest.map_or(0.0, |oldest| self.census.at.since(oldest).as_secs_f64())
    }

    fn write_queues(&self, out: &mut Exposition) {
        type Of = fn(&Seen, &census::ClassCensus) -> f64;
        let families: [(&'static str, &str, Of); 4] = [
            ("provost_queue_runs", "Runs that could start now.", |_, class| {
                class.queued.count as f64
            }),
            (
                "provost_queue_oldest_age_seconds",
                "Age of the oldest run that could start now.",
                |seen, class| seen.age(class.queued.oldest),
            ),
            ("provost_leased_runs", "Runs at work.", |_, class| class.running as f64),
            ("provost_class_slots", "Runs that may work at once.", |_, class| class.desired as f64),
        ];
        for (name, help, of) in families {
            out.family(name, Kind::Gauge, help);
            for class in &self.census.classes {
                let labels = [("namespace", class.namespace.as_str()), ("class", &class.key)];
                out.sample(&labels, of(self, class));
            }
        }
        out.family(
            "provost_parked_runs",
            Kind::Gauge,
            "Runs that wait for something, by what for.",
        );
        for (reason, count) in &self.census.parked {
            out.sample(&[("reason", reason)], *count as f64);
        }
    }

    fn write_waiting(&self, out: &mut Exposition) {
        let census = &self.census;
        let mut waiting =
            |what: Waiting, count: (&'static str, &str), age: (&'static str, &str)| {
                out.one(count.0, Kind::Gauge, count.1, what.count as f64);
                out.one(age.0, Kind::Gauge, age.1, self.age(what.oldest));
            };
        waiting(
            census.approvals,
            ("provost_open_approvals", "Questions that nobody has answered."),
            ("provost_open_approvals_oldest_age_seconds", "Age of the oldest open question."),
        );
        waiting(
            census.inputs,
            ("provost_pending_inputs", "Messages that no run has taken in."),
            ("provost_pending_inputs_oldest_age_seconds", "Age of the oldest of them."),
        );
        waiting(
            census.undelivered,
            ("provost_pending_deliveries", "Answers that are to be sent out."),
            ("provost_pending_deliveries_oldest_age_seconds", "Age of the oldest of them."),
        );
        out.family(
            "provost_deliveries",
            Kind::Gauge,
            "Answers to send out that are kept, by state.",
        );
        for (state, count) in &census.deliveries {
            out.sample(&[("state", state)], *count as f64);
        }
        out.family(
            "provost_webhook_posts",
            Kind::Gauge,
            "Posts to webhooks that are kept, by state.",
        );
        for (state, count) in &census.posts {
            out.sample(&[("state", state)], *count as f64);
        }
        out.one("provost_workers", Kind::Gauge, "Nodes that are alive.", census.workers as f64);
        let unknown = "Effects of open runs of which nobody knows whether they happened.";
        out.one("provost_unknown_effects", Kind::Gauge, unknown, census.unknown_effects as f64);
    }

    fn write_totals(&self, out: &mut Exposition) {
        let events = &self.totals.events;
        let of = |kind: &str| events.get(kind).copied().unwrap_or_default() as f64;
        let last = "Position of the newest event in the log.";
        out.one("provost_log_position", Kind::Gauge, last, self.census.last_pos as f64);
        let help = "Events since this server was first asked, by kind.";
        out.family("provost_log_events_total", Kind::Counter, help);
        for (kind, count) in events {
            out.sample(&[("kind", kind)], *count as f64);
        }
        let lost =
            "Runs that lost their worker and were taken back since this server was first asked.";
        out.one("provost_lease_losses_total", Kind::Counter, lost, of(WORKER_LOST));
        let claims = "Attempts that were started since this server was first asked.";
        out.one("provost_claims_total", Kind::Counter, claims, of(ATTEMPT_STARTED));
        let wait =
            "Time that runs were due until a worker took them, since this server was first asked.";
        out.family("provost_claim_latency_seconds", Kind::Histogram, wait);
        out.histogram(&[], &LATENCY_BOUNDS, &self.totals.claims.counts, self.totals.claims.seconds);
        type Of = fn(&Spent) -> f64;
        let families: [(&'static str, &str, Of); 4] = [
            ("provost_agent_runs_total", "Runs that ended.", |spent| spent.runs as f64),
            ("provost_agent_input_tokens_total", "Tokens read by runs that ended.", |spent| {
                spent.usage.input as f64
            }),
            ("provost_agent_output_tokens_total", "Tokens written by runs that ended.", |spent| {
                spent.usage.output as f64
            }),
            (
                "provost_agent_cost_total",
                "Cost of runs that ended, in units of the ledger's currency.",
                |spent| spent.cost_micros as f64 / 1e6,
            ),
        ];
        for (name, help, of) in families {
            out.family(name, Kind::Counter, help);
            for (agent, spent) in &self.totals.agents {
                out.sample(&[("agent", agent)], of(spent));
            }
        }
    }
}
