//! Agents that use agents: a child must cost as much as a run.
//!
//! The baseline starts the same number of runs of the same agent directly: in memory as one task of the runtime each,
//! durably as one submission each.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_agent::{Agent, FanOut};
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::{ContentPart, RunId};
use provost_engine::Engine;
use provost_model::{ScriptedModel, call, text};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::disk::fresh;
use crate::engine;
use crate::measure::{Pairs, cpu_time};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Children of one call.
const CHILDREN: usize = 1000;
/// Maximum cost of a child, relative to a run.
const CHILD_MAX: f64 = 1.2;
/// Concurrent runs of the engine.
const CAPACITY: usize = 64;

/// Measures a fan-out against the same number of runs.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut in_memory = Pairs::default();
    for _ in 0..plan.pick(15, 3) {
        let baseline = runtime.block_on(directly())?;
        let provost = runtime.block_on(split())?;
        in_memory.push(provost, baseline);
    }
    let what = "fan-out of 1,000 children in memory: time";
    table.ratio_at_most(what, Unit::Time, &in_memory, CHILD_MAX);
    let (mut durable, mut cpu) = (Pairs::default(), Pairs::default());
    for _ in 0..plan.pick(15, 1) {
        let (baseline, baseline_cpu) = runtime.block_on(durably(dir, commands()))?;
        let split = vec![task_request(split_into(CHILDREN))];
        let (provost, provost_cpu) = runtime.block_on(durably(dir, split))?;
        durable.push(provost.as_secs_f64(), baseline.as_secs_f64());
        cpu.push(provost_cpu.as_secs_f64(), baseline_cpu.as_secs_f64());
    }
    let what = "fan-out of 1,000 children, durable: time";
    table.ratio_at_most(what, Unit::Time, &durable, CHILD_MAX);
    table.compare_only("fan-out of 1,000 children, durable: CPU", Unit::Time, &cpu);
    Ok(())
}

/// Prefix of the prompt that makes the lead split its work. The number of tasks follows.
const SPLIT: &str = "split ";

fn tasks(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("task {number}")).collect()
}

fn split_into(count: usize) -> String {
    format!("{SPLIT}{count}")
}

/// Returns an agent that answers at once, or splits its work among children that answer at once.
fn lead() -> Result<Agent> {
    let below = ScriptedModel::from_fn(|_, _| text("done")).without_recording();
    let above = ScriptedModel::from_fn(|request, _| {
        let last = request.messages.last().map(|last| last.text()).unwrap_or_default();
        match last.strip_prefix(SPLIT).and_then(|count| count.parse().ok()) {
            Some(count) => call("each", json!({ "tasks": tasks(count) })),
            None => text("done"),
        }
    });
    let child = Agent::builder("child", below).build()?;
    let each =
        FanOut::new(&child, "each", "Does many things").max_items(CHILDREN).concurrency(CAPACITY);
    Ok(Agent::builder("default", above.without_recording()).fan_out(each).build()?)
}

/// Starts the same number of runs directly, with the same concurrency.
async fn directly() -> Result<f64> {
    let agent =
        Agent::builder("child", ScriptedModel::from_fn(|_, _| text("done")).without_recording())
            .build()?;
    let turns = Arc::new(Semaphore::new(CAPACITY));
    let began = Instant::now();
    let mut running = Vec::with_capacity(CHILDREN);
    for task in tasks(CHILDREN) {
        let (agent, turns) = (agent.clone(), Arc::clone(&turns));
        running.push(tokio::spawn(async move {
            let _turn = turns.acquire_owned().await;
            agent.run(task).await
        }));
    }
    for run in running {
        run.await??;
    }
    Ok(began.elapsed().as_secs_f64())
}

async fn split() -> Result<f64> {
    let agent = lead()?;
    let began = Instant::now();
    let result = agent.run(split_into(CHILDREN)).await?;
    let took = began.elapsed().as_secs_f64();
    if result.tool_results.iter().any(|result| result.is_error) {
        return Err("the fan-out failed".into());
    }
    Ok(took)
}

fn task_request(text: String) -> TaskRequest {
    TaskRequest { message: vec![ContentPart::text(text)], new_task: true, ..TaskRequest::default() }
}

fn commands() -> Vec<TaskRequest> {
    tasks(CHILDREN).into_iter().map(task_request).collect()
}

/// Returns the time from the first submission to the end of the last run, and the processor time.
async fn durably(dir: &Path, commands: Vec<TaskRequest>) -> Result<(Duration, Duration)> {
    let dir = fresh(dir)?;
    let engine = engine::open(dir.path(), CAPACITY, engine::always(lead()?)).await?;
    let worker = engine.start().await?;
    // Both classes exist and have the capacity of the engine before the measurement.
    run_all(&engine, vec![task_request(split_into(2))]).await?;
    engine::widen(&engine, CAPACITY as u64).await?;
    let cpu = cpu_time();
    let took = run_all(&engine, commands).await?;
    let cpu = cpu_time().saturating_sub(cpu);
    worker.stop(Duration::ZERO).await;
    Ok((took, cpu))
}

async fn run_all(engine: &Engine, commands: Vec<TaskRequest>) -> Result<Duration> {
    let namespace = Namespace::default();
    let began = Instant::now();
    let mut accepting = Vec::with_capacity(commands.len());
    for command in commands {
        let (engine, namespace) = (engine.clone(), namespace.clone());
        accepting.push(tokio::spawn(async move { engine.submit(&namespace, command).await }));
    }
    let mut runs: Vec<RunId> = Vec::new();
    for accepted in accepting {
        runs.push(accepted.await??.run);
    }
    for run in runs {
        let run = engine::check_succeeded(engine.runs().wait(&namespace, run).await?)?;
        let result: Value = serde_json::from_str(run.result.as_deref().unwrap_or("{}"))?;
        if result["text"] != "done" {
            return Err(format!("a run answered {}", result["text"]).into());
        }
    }
    Ok(began.elapsed())
}
