//! One long streamed answer: how soon the first token is there, and how fast the rest follows.

use std::time::Instant;

use crate::floor::Floor;
use crate::measure::{cpu_time, local_runtime, median};
use crate::server::{STREAM_MODEL, STREAM_TOKENS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

const FIRST_TOKEN_EXCESS_MAX: f64 = 200e-6;
const SPEED_RATIO_MIN: f64 = 0.7;

/// What was seen of one side, answer by answer.
#[derive(Default)]
struct Seen {
    first: Vec<f64>,
    whole: Vec<f64>,
    cpu: Vec<f64>,
}

impl Seen {
    /// Watches one answer.
    fn answer(&mut self, stream: impl FnOnce(&mut dyn FnMut(&str)) -> Result<()>) -> Result<()> {
        let (mut tokens, mut first) = (0, None);
        let cpu_before = cpu_time();
        let started = Instant::now();
        stream(&mut |_| {
            tokens += 1;
            first.get_or_insert_with(|| started.elapsed());
        })?;
        let whole = started.elapsed();
        if tokens != STREAM_TOKENS {
            return Err(format!("{tokens} tokens came instead of {STREAM_TOKENS}").into());
        }
        self.first.push(first.unwrap_or(whole).as_secs_f64());
        self.whole.push(whole.as_secs_f64());
        self.cpu.push((cpu_time() - cpu_before).as_secs_f64());
        Ok(())
    }
}

/// Alternates both sides on one thread, on warm connections.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let floor = Floor::new(url, STREAM_MODEL)?;
    let agent = ours::agent(url, STREAM_MODEL)?;
    let (mut floor_seen, mut ours_seen) = (Seen::default(), Seen::default());
    for repetition in 0..plan.pick(120, 30) {
        if repetition == 5 {
            (floor_seen, ours_seen) = (Seen::default(), Seen::default());
        }
        floor_seen.answer(|seen| {
            runtime.block_on(floor.run(ours::PROMPT, seen))?;
            Ok(())
        })?;
        ours_seen.answer(|seen| {
            runtime.block_on(ours::run(&agent, ours::PROMPT, seen))?;
            Ok(())
        })?;
    }
    let tokens = STREAM_TOKENS as f64;
    table.excess_at_most(
        "2,000-token stream: first token",
        Unit::Time,
        (median(ours_seen.first), median(floor_seen.first), FIRST_TOKEN_EXCESS_MAX),
    );
    table.ratio_at_least(
        "2,000-token stream: tokens",
        Unit::PerSecond,
        (tokens / median(ours_seen.whole), tokens / median(floor_seen.whole), SPEED_RATIO_MIN),
    );
    table.compare_only(
        "2,000-token stream: CPU per token",
        Unit::Time,
        median(ours_seen.cpu) / tokens,
        median(floor_seen.cpu) / tokens,
    );
    Ok(())
}
