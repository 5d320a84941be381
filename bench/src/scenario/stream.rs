//! One long streamed answer: how soon the first token is there, and how fast the rest follows.

use std::time::Instant;

use crate::baseline::floor::Floor;
use crate::measure::{Pairs, cpu_time, local_runtime};
use crate::server::{STREAM_MODEL, STREAM_TOKENS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

const FIRST_TOKEN_EXCESS_MAX: f64 = 200e-6;
const SPEED_RATIO_MIN: f64 = 0.7;
/// Answers that are not counted: the first ones open connections.
const WARM_UP: usize = 5;

/// What was seen of one answer, in seconds.
struct Seen {
    first: f64,
    whole: f64,
    cpu: f64,
}

/// Watches one answer.
fn watch(stream: impl FnOnce(&mut dyn FnMut(&str)) -> Result<u64>) -> Result<Seen> {
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
    Ok(Seen {
        first: first.unwrap_or(whole).as_secs_f64(),
        whole: whole.as_secs_f64(),
        cpu: (cpu_time() - cpu_before).as_secs_f64(),
    })
}

/// Alternates both sides on one thread, on warm connections.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let floor = Floor::new(url, STREAM_MODEL)?;
    let agent = ours::agent(url, STREAM_MODEL)?;
    let (mut first, mut speed, mut cpu) = <(Pairs, Pairs, Pairs)>::default();
    let tokens = STREAM_TOKENS as f64;
    for repetition in 0..plan.pick(200, 40) {
        let theirs = watch(|seen| runtime.block_on(floor.run(ours::PROMPT, seen)))?;
        let ours = watch(|seen| runtime.block_on(ours::run(&agent, ours::PROMPT, seen)))?;
        if repetition >= WARM_UP {
            first.push(ours.first, theirs.first);
            speed.push(tokens / ours.whole, tokens / theirs.whole);
            cpu.push(ours.cpu / tokens, theirs.cpu / tokens);
        }
    }
    let what = "2,000-token stream: first token";
    table.excess_at_most(what, Unit::Time, &first, FIRST_TOKEN_EXCESS_MAX);
    let what = "2,000-token stream: tokens";
    table.ratio_at_least(what, Unit::PerSecond, &speed, SPEED_RATIO_MIN);
    table.compare_only("2,000-token stream: CPU per token", Unit::Time, &cpu);
    Ok(())
}
