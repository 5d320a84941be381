//! One long streamed response: time to the first token, and the speed of the rest.

use std::time::Instant;

use crate::baseline::baseline_loop::BaselineLoop;
use crate::measure::{Pairs, cpu_time, local_runtime};
use crate::server::{STREAM_MODEL, STREAM_TOKENS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, provost_side};

const FIRST_TOKEN_EXCESS_MAX: f64 = 200e-6;
const SPEED_RATIO_MIN: f64 = 0.7;
/// Responses that are not counted. The first ones open connections.
const WARM_UP: usize = 5;

/// Times of one response, in seconds.
struct StreamTimes {
    first: f64,
    whole: f64,
    cpu: f64,
}

/// Measures one response.
fn watch(stream: impl FnOnce(&mut dyn FnMut(&str)) -> Result<u64>) -> Result<StreamTimes> {
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
    Ok(StreamTimes {
        first: first.unwrap_or(whole).as_secs_f64(),
        whole: whole.as_secs_f64(),
        cpu: (cpu_time() - cpu_before).as_secs_f64(),
    })
}

/// Alternates both sides on one thread, on open connections.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let baseline = BaselineLoop::new(url, STREAM_MODEL)?;
    let agent = provost_side::agent(url, STREAM_MODEL)?;
    let (mut first, mut speed, mut cpu) = <(Pairs, Pairs, Pairs)>::default();
    let tokens = STREAM_TOKENS as f64;
    for repetition in 0..plan.pick(200, 40) {
        let baseline = watch(|seen| runtime.block_on(baseline.run(provost_side::PROMPT, seen)))?;
        let provost =
            watch(|seen| runtime.block_on(provost_side::run(&agent, provost_side::PROMPT, seen)))?;
        if repetition >= WARM_UP {
            first.push(provost.first, baseline.first);
            speed.push(tokens / provost.whole, tokens / baseline.whole);
            cpu.push(provost.cpu / tokens, baseline.cpu / tokens);
        }
    }
    let what = "2,000-token stream: first token";
    table.excess_at_most(what, Unit::Time, &first, FIRST_TOKEN_EXCESS_MAX);
    let what = "2,000-token stream: tokens";
    table.ratio_at_least(what, Unit::PerSecond, &speed, SPEED_RATIO_MIN);
    table.compare_only("2,000-token stream: CPU per token", Unit::Time, &cpu);
    Ok(())
}
