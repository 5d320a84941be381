//! `kill -9` at random moments, under load: nothing lost, nothing doubled, no gap, every run ends.
//!
//! Twenty kills in the test command; `scripts/stress kill` does more. The seed decides the work and the moments, as far as a machine
//! that does other things at the same time lets it.

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::pin::pin;
use std::time::{Duration, Instant};

use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_core::{Env, RunId};
use provost_store::table::work::run_step::RunStepRow;
use provost_testkit::{EffectKind, Process, history};

use crate::harness::{Harness, in_session};

/// Runs at work at once.
const IN_FLIGHT: usize = 32;
/// Classes the runs belong to; each works on eight at once.
const LANES: u64 = 4;
/// Kills unless the environment says otherwise.
const KILLS: usize = 20;

/// Numbers that a seed decides.
struct Chance(Env);

impl Chance {
    fn below(&self, bound: u64) -> u64 {
        self.0.random() % bound
    }
}

fn setting(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// What was handed in: the runs, and the key of everything that must be done once.
#[derive(Default)]
struct Work {
    runs: Vec<RunId>,
    open: Vec<RunId>,
    sure: Vec<Sure>,
    opaque: Vec<String>,
    turns: usize,
}

/// What must be done once.
struct Sure {
    key: String,
    /// The number of its run.
    run: usize,
    /// The model's name of the call.
    call: String,
    /// True if a call beside it may not be repeated: if a kill hides what came of that one before this one has begun, this
    /// one is the rest of a turn that may only look.
    beside_opaque: bool,
}

impl Work {
    /// Hands in work until enough is under way.
    async fn fill(&mut self, harness: &Harness, chance: &Chance) {
        let mut open = Vec::new();
        for run in self.open.drain(..) {
            if harness.row(run).await.ended.is_none() {
                open.push(run);
            }
        }
        self.open = open;
        while self.open.len() < IN_FLIGHT {
            let run = self.hand_in(harness, chance).await;
            self.runs.push(run);
            self.open.push(run);
        }
    }

    /// One to three turns of one to three calls; a call that is never repeated can only be in the last, because whatever
    /// follows it may only look.
    async fn hand_in(&mut self, harness: &Harness, chance: &Chance) -> RunId {
        let number = self.runs.len();
        let mut turns = Vec::new();
        let last = chance.below(3);
        for turn in 0..=last {
            let mut calls = Vec::new();
            let (sure, opaque) = (self.sure.len(), self.opaque.len());
            for call in 0..=chance.below(3) {
                let key = format!("{number}-{turn}-{call}");
                let kinds: &[&str] = &["keyed", "idempotent", "provable", "pure", "opaque"];
                let kinds = if turn == last { kinds } else { &kinds[..4] };
                let kind = kinds[chance.below(kinds.len() as u64) as usize];
                calls.push(format!("{kind}:{key}"));
                match kind {
                    "opaque" => self.opaque.push(key),
                    "pure" => {}
                    _ => {
                        let call = format!("call_{turn}_{call}_{key}");
                        self.sure.push(Sure { key, run: number, call, beside_opaque: false });
                    }
                }
            }
            for call in &mut self.sure[sure..] {
                call.beside_opaque = self.opaque.len() > opaque;
            }
            turns.push(calls.join(", "));
        }
        self.turns += turns.len() + 1;
        let plan = format!("do {}; say {number}", turns.join("; "));
        let command = match chance.below(4) {
            0 => TaskRequest {
                new_task: true,
                ..in_session(&format!("s{}", chance.below(4)), &plan)
            },
            _ => TaskRequest::text(plan),
        };
        let lane = format!("lane-{}", chance.below(LANES));
        harness.accept(TaskRequest { lane: Some(lane), ..command }).await.run
    }
}

/// When to kill: after so many requests, so many calls, or so much time.
enum Moment {
    Requests(usize),
    Calls(usize),
    Time(Duration),
}

impl Moment {
    /// A moment that the seed chooses. Five deaths of its workers without a step forward would end a run, so most moments
    /// leave room for a step of each, and one that does not is never followed by another.
    fn choose(harness: &Harness, chance: &Chance, before: Option<&Self>) -> Self {
        let some = 32 + chance.below(64) as usize;
        match chance.below(5) {
            0 if !matches!(before, Some(Self::Time(_))) => {
                Self::Time(Duration::from_millis(10 + chance.below(400)))
            }
            1 | 2 => Self::Requests(harness.provider.request_count() + some),
            _ => Self::Calls(harness.effect_server.call_count() + some),
        }
    }

    /// Waits for it, and keeps enough work under way meanwhile.
    async fn wait(&self, harness: &Harness, chance: &Chance, work: &mut Work) {
        let come = async {
            match self {
                Self::Requests(count) => harness.provider.wait_for_requests(*count).await,
                Self::Calls(count) => harness.effect_server.wait_for_calls(*count).await,
                Self::Time(time) => tokio::time::sleep(*time).await,
            }
        };
        let mut come = pin!(come);
        let mut refill = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                () = &mut come => return,
                _ = refill.tick() => work.fill(harness, chance).await,
            }
        }
    }
}

/// What came of it.
struct Summary {
    seed: u64,
    kills: usize,
    runs: usize,
    turns: usize,
    requests: usize,
    effects: u64,
    lost: Vec<String>,
    doubled: Vec<String>,
    missing: Vec<String>,
    refused: usize,
    gaps: Vec<String>,
    failed: Vec<String>,
    took: Duration,
}

impl Summary {
    fn is_clean(&self) -> bool {
        [&self.lost, &self.doubled, &self.missing, &self.gaps, &self.failed]
            .iter()
            .all(|list| list.is_empty())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, kills, runs, turns, requests, effects, refused, took, .. } = self;
        let repeated = requests.saturating_sub(*turns);
        writeln!(
            f,
            "seed {seed}: {kills} kills, {runs} runs, {effects} effects, {:.1} s",
            took.as_secs_f64()
        )?;
        writeln!(
            f,
            "model calls: {turns} needed, {requests} made, {repeated} of them again after a kill"
        )?;
        writeln!(
            f,
            "calls that had not begun beside one that was lost, and were not run: {refused}"
        )?;
        let lists = [
            ("lost runs", &self.lost),
            ("runs that did not end well", &self.failed),
            ("doubled effects", &self.doubled),
            ("missing effects", &self.missing),
            ("violations of the history (gaps, ends, epochs)", &self.gaps),
        ];
        for (what, list) in lists {
            writeln!(f, "{what}: {}", list.len())?;
            for line in list.iter().take(20) {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

/// What the journal of a run tells of a call.
async fn told(harness: &Harness, run: RunId, call: &str) -> Vec<RunStepRow> {
    let mut steps = harness.steps(run).await;
    steps.retain(|step| step.call_id.as_deref() == Some(call));
    steps
}

async fn judge(
    harness: &Harness,
    work: &Work,
    seed: u64,
    kills: usize,
    started: Instant,
) -> Summary {
    let mut failed = Vec::new();
    for run in &work.runs {
        let row = harness.wait(*run).await;
        if row.status != RunStatus::Ok {
            failed.push(format!("{run}: {} {:?} {:?}", row.status, row.outcome_code, row.detail));
        }
    }
    let records = harness.records(&work.runs).await;
    let accepted: Vec<String> = work.runs.iter().map(ToString::to_string).collect();
    let lost = history::lost(&records, accepted.iter().map(String::as_str));
    let gaps = history::check(&records, crate::harness::is_terminal);
    let (mut missing, mut refused) = (Vec::new(), 0);
    for Sure { key, run, call, beside_opaque } in &work.sure {
        if harness.effect_server.effects(key) > 0 {
            continue;
        }
        match *beside_opaque && harness.was_refused(work.runs[*run], call).await {
            true => refused += 1,
            false => {
                missing.push(format!("{key}: {:?}", told(harness, work.runs[*run], call).await))
            }
        }
    }
    let all = work.sure.iter().map(|sure| &sure.key).chain(&work.opaque);
    let effects = |key: &&String| harness.effect_server.effects(key);
    let known: BTreeSet<&str> = all.clone().map(String::as_str).collect();
    assert_eq!(known.len(), work.sure.len() + work.opaque.len(), "keys are used once");
    Summary {
        seed,
        kills,
        runs: work.runs.len(),
        turns: work.turns,
        requests: harness.provider.request_count(),
        effects: all.clone().map(|key| harness.effect_server.effects(key)).sum(),
        lost: lost.iter().map(ToString::to_string).collect(),
        doubled: all.filter(|key| effects(key) > 1).cloned().collect(),
        missing,
        refused,
        gaps: gaps.iter().map(ToString::to_string).collect(),
        failed,
        took: started.elapsed(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g43_killed_at_random_moments_under_load_nothing_is_lost_or_doubled() {
    let kills = setting("PROVOST_SOAK_KILLS").map_or(KILLS, |kills| kills as usize);
    let seed = setting("PROVOST_SOAK_SEED").unwrap_or_else(|| Env::system().random() % 1_000_000);
    let chance = Chance(Env::simulated(seed));
    let started = Instant::now();
    let harness = Harness::new().await;
    harness.provider.forget_requests();
    let mut work = Work::default();
    work.fill(&harness, &chance).await;
    let mut workers: Vec<Process> = vec![harness.worker().await];
    let mut moment = None;
    for kill in 0..kills {
        if kill > 0 && kill % 50 == 0 {
            eprintln!("{kill} kills, {} runs", work.runs.len());
        }
        let next = Moment::choose(&harness, &chance, moment.as_ref());
        next.wait(&harness, &chance, &mut work).await;
        moment = Some(next);
        let victim = workers.swap_remove(chance.below(workers.len() as u64) as usize);
        victim.kill().await.unwrap();
        // Now and then two share the work, and one of them sees the other die.
        while workers.is_empty() || (workers.len() < 2 && chance.below(4) == 0) {
            workers.push(harness.worker().await);
        }
    }
    let summary = judge(&harness, &work, seed, kills, started).await;
    eprintln!("{summary}");
    assert!(
        summary.is_clean(),
        "again: scripts/stress kill --kills {kills} --seed {seed}\n{summary}"
    );
    let probes =
        harness.effect_server.log().iter().filter(|call| call.path == EffectKind::Probe).count();
    eprintln!("questions about effects that a kill cut off: {probes}");
    assert_eq!(
        harness.one("SELECT SUM(running) FROM exec_class").await,
        0,
        "no slot is left taken"
    );
}
