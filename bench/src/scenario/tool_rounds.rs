//! Runs of five tool rounds, one after another: processor time of the client per model step.

use provost_agent::Agent;
use tokio::runtime::Runtime;

use crate::baseline::baseline_loop::BaselineLoop;
use crate::measure::{Pairs, cpu_time, local_runtime};
use crate::server::{ROUNDS_MODEL, STEPS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, provost_side};

/// Runs of each side in one repetition.
const RUNS: usize = 200;
/// Runs before the other side continues.
const BLOCK: usize = 10;
const CPU_RATIO_MAX: f64 = 1.5;

/// Alternates both sides on one thread, so that both see the same state of the machine.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let baseline = BaselineLoop::new(url, ROUNDS_MODEL)?;
    let agent = provost_side::agent(url, ROUNDS_MODEL)?;
    let mut pairs = Pairs::default();
    for repetition in 0..=plan.pick(15, 5) {
        let (mut provost_time, mut baseline_time) = (0.0, 0.0);
        for _ in 0..RUNS / BLOCK {
            let (baseline_tokens, seconds) = baseline_block(&runtime, &baseline)?;
            baseline_time += seconds;
            let (provost_tokens, seconds) = provost_block(&runtime, &agent)?;
            provost_time += seconds;
            if baseline_tokens != provost_tokens {
                let problem = format!("{provost_tokens} tokens, the floor {baseline_tokens}");
                return Err(format!("not the same work: {problem}").into());
            }
        }
        // The first repetition opens connections and compiles schemas.
        if repetition > 0 {
            let steps = (RUNS * STEPS) as f64;
            pairs.push(provost_time / steps, baseline_time / steps);
        }
    }
    let what = "5 tool rounds, 200 runs: CPU per model step";
    table.ratio_at_most(what, Unit::Time, &pairs, CPU_RATIO_MAX);
    Ok(())
}

fn baseline_block(runtime: &Runtime, baseline: &BaselineLoop) -> Result<(u64, f64)> {
    let started = cpu_time();
    let mut tokens = 0;
    for _ in 0..BLOCK {
        tokens += runtime.block_on(baseline.run(provost_side::PROMPT, |_| ()))?;
    }
    Ok((tokens, (cpu_time() - started).as_secs_f64()))
}

fn provost_block(runtime: &Runtime, agent: &Agent) -> Result<(u64, f64)> {
    let started = cpu_time();
    let mut tokens = 0;
    for _ in 0..BLOCK {
        tokens += runtime.block_on(provost_side::answer(agent, provost_side::PROMPT))?;
    }
    Ok((tokens, (cpu_time() - started).as_secs_f64()))
}
