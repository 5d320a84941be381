//! Runs of five tool rounds, one after another: processor time of the client for each model step.

use provost_agent::Agent;
use tokio::runtime::Runtime;

use crate::baseline::floor::Floor;
use crate::measure::{Pairs, cpu_time, local_runtime};
use crate::server::{ROUNDS_MODEL, STEPS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

/// Runs of each side in one repetition.
const RUNS: usize = 200;
/// Runs before it is the other side's turn.
const BLOCK: usize = 10;
const CPU_RATIO_MAX: f64 = 1.5;

/// Alternates both sides on one thread, so that both see the same machine.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let floor = Floor::new(url, ROUNDS_MODEL)?;
    let agent = ours::agent(url, ROUNDS_MODEL)?;
    let mut pairs = Pairs::default();
    for repetition in 0..=plan.pick(15, 5) {
        let (mut our_time, mut floor_time) = (0.0, 0.0);
        for _ in 0..RUNS / BLOCK {
            let (floor_tokens, seconds) = floor_block(&runtime, &floor)?;
            floor_time += seconds;
            let (our_tokens, seconds) = our_block(&runtime, &agent)?;
            our_time += seconds;
            if floor_tokens != our_tokens {
                let problem = format!("{our_tokens} tokens, the floor {floor_tokens}");
                return Err(format!("not the same work: {problem}").into());
            }
        }
        // The first repetition opens connections and compiles schemas.
        if repetition > 0 {
            let steps = (RUNS * STEPS) as f64;
            pairs.push(our_time / steps, floor_time / steps);
        }
    }
    let what = "5 tool rounds, 200 runs: CPU per model step";
    table.ratio_at_most(what, Unit::Time, &pairs, CPU_RATIO_MAX);
    Ok(())
}

fn floor_block(runtime: &Runtime, floor: &Floor) -> Result<(u64, f64)> {
    let started = cpu_time();
    let mut tokens = 0;
    for _ in 0..BLOCK {
        tokens += runtime.block_on(floor.run(ours::PROMPT, |_| ()))?;
    }
    Ok((tokens, (cpu_time() - started).as_secs_f64()))
}

fn our_block(runtime: &Runtime, agent: &Agent) -> Result<(u64, f64)> {
    let started = cpu_time();
    let mut tokens = 0;
    for _ in 0..BLOCK {
        tokens += runtime.block_on(ours::answer(agent, ours::PROMPT))?;
    }
    Ok((tokens, (cpu_time() - started).as_secs_f64()))
}
