//! Cost of step 10,000 of a run against step 10, and the stored size of a long conversation.
//!
//! The model is in this process and its context is bounded, so each step does the same work. The tool records the time
//! and the bytes written so far. The step before it is persisted by then.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use provost_agent::Agent;
use provost_agent::context::{ContextConfig, Truncate};
use provost_core::command::TaskRequest;
use provost_core::{Limits, Role};
use provost_model::{ScriptedModel, call, text};
use provost_tool::{FnTool, ToolError, tool_fn};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::measure::{Pairs, bytes_written, mean, median};
use crate::provost_side::{Add, INSTRUCTIONS, PROMPT, add};
use crate::table::{Table, Unit};
use crate::{Plan, Result, disk, engine};

/// A model step and a tool step.
const STEPS_PER_ROUND: f64 = 2.0;
/// Rounds before the first one that counts: step 10.
const WARM_UP: usize = 5;
/// Context limit of a request.
const CONTEXT_TOKENS: u64 = 2000;
const RATIO_MAX: f64 = 1.3;
/// Messages of one turn: question, call, result and answer.
const MESSAGES_PER_TURN: usize = 4;

/// Measures a long run and a long conversation.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    long_run(plan, &runtime, dir, table)?;
    conversation(plan, &runtime, dir, table)
}

/// Time and written bytes at a call of the tool.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    written: f64,
}

/// All calls of the tool, in order.
#[derive(Clone, Default)]
struct CallMarks(Arc<Mutex<Vec<Mark>>>);

impl CallMarks {
    fn tool(&self) -> Result<FnTool> {
        let marks = self.clone();
        let tool = tool_fn("add", "Adds two numbers", move |_cx, arguments: Add| {
            let marks = marks.clone();
            async move {
                marks.push().map_err(|error| ToolError::Rejected(error.to_string()))?;
                Ok::<_, ToolError>(add(arguments).await)
            }
        })?;
        Ok(tool)
    }

    fn push(&self) -> Result<()> {
        let mark = Mark { at: Instant::now(), written: bytes_written()? };
        self.0.lock().push(mark);
        Ok(())
    }

    /// Returns the seconds and bytes between consecutive calls.
    fn between(&self) -> (Vec<f64>, Vec<f64>) {
        let marks = self.0.lock();
        let pairs = marks.windows(2);
        let each = |[before, after]: [Mark; 2]| {
            ((after.at - before.at).as_secs_f64(), after.written - before.written)
        };
        pairs.filter_map(|pair| pair.try_into().ok()).map(each).unzip()
    }
}

fn long_run(plan: Plan, runtime: &Runtime, dir: &Path, table: &mut Table) -> Result<()> {
    let rounds = plan.pick(5000, 1000);
    let marks = CallMarks::default();
    let model = ScriptedModel::from_fn(move |_, calls| match calls < rounds {
        true => call("add", json!({ "a": 1, "b": 2 })),
        false => text("Three."),
    });
    let agent = Agent::builder("adder", model.without_recording())
        .instructions(INSTRUCTIONS)
        .tool(marks.tool()?)
        .limits(Limits { turns: None, ..Limits::default() })
        .context(ContextConfig::new(Truncate::new()).max_tokens(CONTEXT_TOKENS))
        .build()?;
    let dir = disk::fresh(dir)?;
    runtime.block_on(async {
        let engine = engine::open(dir.path(), 1, engine::always(agent)).await?;
        let worker = engine.start().await?;
        let command = TaskRequest { timeout_ms: Some(0), ..TaskRequest::text(PROMPT) };
        engine::done(&engine, command).await?;
        worker.stop(std::time::Duration::ZERO).await;
        engine.store().close().await;
        Ok::<_, crate::Error>(())
    })?;
    let (seconds, bytes) = marks.between();
    if seconds.len() + 1 != rounds {
        return Err(format!("{} tool calls instead of {rounds}", seconds.len() + 1).into());
    }
    let last = 2 * rounds;
    let window = plan.pick(200, 100);
    let what = format!("step {last} of a run against step 10: time (median)");
    table.ratio_at_most(&what, Unit::Time, &ends(&seconds, window, middle), RATIO_MAX);
    let what = format!("step {last} of a run against step 10: bytes written (median)");
    table.ratio_at_most(&what, Unit::Bytes, &ends(&bytes, window, middle), RATIO_MAX);
    // Only the mean contains occasional writes, such as snapshots and checkpoints of the log, so it needs more rounds.
    let window = plan.pick(1000, 300);
    let what = format!("step {last} of a run against step 10: bytes written (mean)");
    table.ratio_at_most(&what, Unit::Bytes, &ends(&bytes, window, mean), RATIO_MAX);
    Ok(())
}

fn middle(numbers: &[f64]) -> f64 {
    median(numbers.to_vec())
}

/// Compares a step of the last rounds with a step of the first counted ones.
fn ends(rounds: &[f64], window: usize, typical: fn(&[f64]) -> f64) -> Pairs {
    let early = &rounds[WARM_UP.min(rounds.len())..];
    let early = &early[..window.min(early.len())];
    let late = &rounds[rounds.len().saturating_sub(window)..];
    let mut pairs = Pairs::default();
    pairs.push(typical(late) / STEPS_PER_ROUND, typical(early) / STEPS_PER_ROUND);
    pairs
}

fn conversation(plan: Plan, runtime: &Runtime, dir: &Path, table: &mut Table) -> Result<()> {
    let turns = plan.pick(200, 50);
    let marks = CallMarks::default();
    let model = ScriptedModel::from_fn(|request, calls| {
        match request.messages.last().map(|message| message.role) {
            Some(Role::Tool) => text(format!("That makes three, as I have said {calls} times.")),
            _ => call("add", json!({ "a": 1, "b": 2 })),
        }
    });
    let agent = Agent::builder("adder", model.without_recording()).tool(marks.tool()?).build()?;
    let dir = disk::fresh(dir)?;
    let stored = runtime.block_on(async {
        let engine = engine::open(dir.path(), 1, engine::always(agent)).await?;
        let worker = engine.start().await?;
        for turn in 0..turns {
            let command = TaskRequest {
                session_id: Some("conversation".parse()?),
                ..TaskRequest::text(format!("What is one and two, for the {turn}th time?"))
            };
            engine::done(&engine, command).await?;
        }
        worker.stop(std::time::Duration::ZERO).await;
        let size = engine.store().size().await?;
        let messages = size.tables.iter().find(|table| table.name == "message");
        let stored = messages.map_or(0, |table| table.rows);
        engine.store().close().await;
        Ok::<_, crate::Error>(stored)
    })?;
    let expected = turns * MESSAGES_PER_TURN;
    if stored < expected as u64 {
        return Err(format!("of {expected} messages only {stored} were stored").into());
    }
    let what = format!("a {turns}-turn conversation: messages stored");
    table.at_most(&what, Unit::Count, stored as f64, expected as f64);
    let (_, bytes) = marks.between();
    let mut pairs = Pairs::default();
    let window = plan.pick(20, 10);
    let early = &bytes[WARM_UP..WARM_UP + window];
    pairs.push(middle(&bytes[bytes.len() - window..]), middle(early));
    let what = format!("turn {turns} of a conversation against turn 10: bytes written");
    table.compare_only(&what, Unit::Bytes, &pairs);
    Ok(())
}
