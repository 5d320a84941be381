//! Runs of five tool rounds, one after another: processor time of the client for each model step.

use crate::floor::Floor;
use crate::measure::{cpu_time, local_runtime, median};
use crate::server::{ROUNDS_MODEL, STEPS};
use crate::table::{Table, Unit};
use crate::{Plan, Result, ours};

const RUNS: usize = 200;
const CPU_RATIO_MAX: f64 = 1.5;

/// Alternates both sides on one thread, so that both see the same machine.
pub(crate) fn measure(plan: Plan, url: &str, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let floor = Floor::new(url, ROUNDS_MODEL)?;
    let agent = ours::agent(url, ROUNDS_MODEL)?;
    let (mut floor_times, mut our_times) = (Vec::new(), Vec::new());
    for repetition in 0..=plan.pick(9, 3) {
        let started = cpu_time();
        let floor_tokens = runtime.block_on(async {
            let mut tokens = 0;
            for _ in 0..RUNS {
                tokens += floor.run(ours::PROMPT, |_| ()).await?;
            }
            Ok::<_, crate::Error>(tokens)
        })?;
        let between = cpu_time();
        let our_tokens = runtime.block_on(async {
            let mut tokens = 0;
            for _ in 0..RUNS {
                tokens += ours::run(&agent, ours::PROMPT, |_| ()).await?;
            }
            Ok::<_, crate::Error>(tokens)
        })?;
        let ended = cpu_time();
        if floor_tokens != our_tokens {
            return Err(format!("not the same work: {our_tokens} and {floor_tokens} tokens").into());
        }
        if repetition > 0 {
            let steps = (RUNS * STEPS) as f64;
            floor_times.push((between - started).as_secs_f64() / steps);
            our_times.push((ended - between).as_secs_f64() / steps);
        }
    }
    let figures = (median(our_times), median(floor_times), CPU_RATIO_MAX);
    table.ratio_at_most("5 tool rounds, 200 runs: CPU per model step", Unit::Time, figures);
    Ok(())
}
