//! Memory of an idle agent, and the cost to build one.

use std::sync::Arc;

use provost_agent::Agent;
use provost_model::{ChatModel, ScriptedModel};
use provost_tool::Tool;

use crate::alloc::counted;
use crate::measure::time_each;
use crate::provost_side::{INSTRUCTIONS, add_tool};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

const BYTES_MAX: f64 = 2048.0;
const BUILD_SECONDS_MAX: f64 = 5e-6;

/// Builds agents from an existing model and three existing tools.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let model: Arc<dyn ChatModel> = Arc::new(ScriptedModel::new());
    let tools = ["add", "subtract", "multiply"]
        .into_iter()
        .map(|name| {
            let spec = add_tool()?.spec().renamed(name)?;
            Ok(Arc::new(add_tool()?.with_spec(|_| spec)) as Arc<dyn Tool>)
        })
        .collect::<Result<Vec<_>>>()?;
    let build = || {
        Agent::builder("adder", Arc::clone(&model))
            .instructions(INSTRUCTIONS)
            .tools(tools.iter().cloned())
            .build()
    };
    let (agent, counts) = counted(build);
    let bytes = counts.live_bytes as f64 + size_of_val(&agent?) as f64;
    let seconds = time_each(plan.pick(50, 20), 1000, || {
        std::hint::black_box(build()?);
        Ok(())
    })?;
    table.at_most("an idle agent: instructions, 3 tools", Unit::Bytes, bytes, BYTES_MAX);
    table.at_most("building and dropping an agent", Unit::Time, seconds, BUILD_SECONDS_MAX);
    table.number("building an agent: allocations", Unit::Count, counts.calls as f64);
    Ok(())
}
