//! The run state machine and its driver without I/O: the cost of a turn, and its growth.
//!
//! Growth is the time at 10,000 divided by the time at 1,000: ten if it is linear, a hundred if it is quadratic.

use std::sync::Arc;
use std::time::Instant;

use provost_agent::Agent;
use provost_agent::run::{
    JournalEntry, LimitAction, OutputMode, Run, RunConfig, RunInput, RunStarted, Step,
};
use provost_core::{
    ContentPart, Env, Limits, Message, Role, StopReason, Timestamp, ToolCall, ToolResult, Usage,
};
use provost_model::{ModelResponse, ScriptedModel, ScriptedTurn, call, text};
use serde_json::{Map, json};
use tokio::runtime::Runtime;

use crate::alloc::counted;
use crate::measure::{local_runtime, median, time_each};
use crate::provost_side::{self, INSTRUCTIONS, PROMPT, add_tool};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

/// Turns with a tool call in each run.
const ROUNDS: usize = 10;
/// Length of the earlier conversation for 20 messages on average.
const HISTORY_OF_20: usize = 9;
const TURN_SECONDS_MAX: f64 = 20e-6;
const LENGTHS: [usize; 4] = [10, 100, 1_000, 10_000];
/// Linear growth is ten. The rest allows for cache misses.
const GROWTH_MAX: f64 = 12.0;

/// Time and allocations of one turn, or of one stream.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    allocations: f64,
}

/// Measures turns and streams of every length.
pub(crate) fn measure(plan: Plan, table: &mut Table) -> Result<()> {
    let runtime = local_runtime()?;
    let turn = driver_turn(&runtime, plan, HISTORY_OF_20)?;
    table.at_most(
        "a turn with a tool call, 20 messages: machine and driver",
        Unit::Time,
        turn.seconds,
        TURN_SECONDS_MAX,
    );
    let bare = machine_turn(plan, HISTORY_OF_20)?;
    table.info("a turn with a tool call, 20 messages: machine alone", bare.to_text());
    let driver = |length| driver_turn(&runtime, plan, length);
    lengths(table, "driver, a turn, messages before", driver)?;
    lengths(table, "machine, a turn, messages before", |length| machine_turn(plan, length))?;
    lengths(table, "driver, a stream, deltas", |length| driver_stream(&runtime, plan, length))
}

fn lengths(
    table: &mut Table,
    what: &str,
    mut cost: impl FnMut(usize) -> Result<Cost>,
) -> Result<()> {
    let mut costs = Vec::new();
    for length in LENGTHS {
        let cost = cost(length)?;
        table.info(&format!("{what}: {length}"), cost.to_text());
        costs.push(cost.seconds);
    }
    if let [.., shorter, longer] = costs.as_slice() {
        let growth = longer / shorter;
        table.at_most(&format!("{what}: growth"), Unit::Times, growth, GROWTH_MAX);
    }
    Ok(())
}

impl Cost {
    fn to_text(self) -> String {
        let micros = self.seconds * 1e6;
        format!("{micros:.2} us, {:.1} allocations", self.allocations)
    }
}

/// Returns a conversation of `length` messages: questions, calls, results and answers.
fn history(length: usize) -> Vec<Arc<Message>> {
    let messages = (0..length).map(|place| {
        let call = ToolCall::new(format!("old_{}", place / 4), "add", &json!({ "a": 1, "b": 2 }));
        // The last message is always an answer, so that the conversation is complete.
        match place % 4 {
            1 if place + 1 < length => Message::calls([call]),
            2 => Message::results([ToolResult::text(&call, "3")]),
            3 => Message::assistant("The sum of these two numbers is three."),
            _ => Message::user("What is the sum of these two numbers, if I may ask?"),
        }
    });
    messages.map(Arc::new).collect()
}

fn agent(
    answer: impl Fn(&[Arc<Message>]) -> ScriptedTurn + Send + Sync + 'static,
) -> Result<Agent> {
    let model =
        ScriptedModel::from_fn(move |request, _| answer(&request.messages)).without_recording();
    let agent =
        Agent::builder("adder", model).instructions(INSTRUCTIONS).tool(add_tool()?).build()?;
    Ok(agent)
}

/// Measures runs of [`ROUNDS`] tool calls. The cost of their start and end is included in the turns.
fn driver_turn(runtime: &Runtime, plan: Plan, length: usize) -> Result<Cost> {
    let (calling, done) = (call("add", json!({ "a": 1, "b": 2 })), text("Three."));
    let agent = agent(move |messages| {
        let of_this_run = messages.iter().rev();
        let of_this_run = of_this_run.take_while(|message| message.role != Role::User);
        let results = of_this_run.filter(|message| message.role == Role::Tool);
        if results.count() < ROUNDS { calling.clone() } else { done.clone() }
    })?;
    let history = history(length);
    let run = || {
        let run = agent.run(PROMPT).history(history.iter().cloned());
        let result = runtime.block_on(run.into_future())?;
        if result.tool_calls as usize != ROUNDS {
            return Err(format!("{} tool calls instead of {ROUNDS}", result.tool_calls).into());
        }
        Ok(())
    };
    cost(plan, length, ROUNDS, run)
}

/// Measures one response of `length` deltas, all of them observed.
fn driver_stream(runtime: &Runtime, plan: Plan, length: usize) -> Result<Cost> {
    let turn = text("").deltas((0..length).map(|token| format!(" token{token}")));
    let agent = agent(move |_| turn.clone())?;
    cost(plan, length, 1, || {
        let mut pieces = 0;
        runtime.block_on(provost_side::run(&agent, PROMPT, |_| pieces += 1))?;
        if pieces < length {
            return Err(format!("{pieces} pieces came instead of {length}").into());
        }
        Ok(())
    })
}

/// Measures one use with `turns` turns. Longer conversations are measured less often.
fn cost(
    plan: Plan,
    length: usize,
    turns: usize,
    mut work: impl FnMut() -> Result<()>,
) -> Result<Cost> {
    let uses = (20_000 / (length + 200)).max(2);
    let seconds = time_each(plan.pick(21, 7), uses, &mut work)?;
    let (done, counts) = counted(work);
    done?;
    Ok(Cost { seconds: seconds / turns as f64, allocations: counts.calls as f64 / turns as f64 })
}

/// Measures the state machine's part of a turn. The responses of model and tool are prepared.
fn machine_turn(plan: Plan, length: usize) -> Result<Cost> {
    let history = history(length);
    let mut seconds = Vec::new();
    let mut allocations = 0;
    for _ in 0..plan.pick(501, 101) {
        let mut run = fresh(history.clone())?;
        let answers = (0..ROUNDS).map(scripted_round).collect::<Vec<_>>();
        let started = Instant::now();
        let (done, counts) = counted(|| {
            for (response, result) in answers {
                round(&mut run, response, result)?;
            }
            Ok::<_, crate::Error>(())
        });
        seconds.push(started.elapsed().as_secs_f64());
        allocations = counts.calls;
        done?;
    }
    Ok(Cost {
        seconds: median(seconds) / ROUNDS as f64,
        allocations: allocations as f64 / ROUNDS as f64,
    })
}

fn fresh(history: Vec<Arc<Message>>) -> Result<Run> {
    let started = RunStarted {
        agent: "adder".into(),
        config: RunConfig {
            limits: Limits::default(),
            on_limit: LimitAction::Stop,
            execute_tools: true,
            output: OutputMode::Text,
            output_retries: 0,
            depth: 0,
            max_handoffs: 0,
            handoff_targets: Vec::new(),
        },
        context_matches_session: false,
        state: Map::new(),
        shared: Vec::new(),
        input: RunInput::Message { message: Arc::new(Message::user(PROMPT)) },
        at: Timestamp::default(),
    };
    Ok(Run::start(Env::simulated(1).id(), started, history)?)
}

/// Returns the response of the model in a round, and the result of the tool.
fn scripted_round(round: usize) -> (ModelResponse, ToolResult) {
    let call = ToolCall::new(format!("call_{round}"), "add", &json!({ "a": 1, "b": 2 }));
    let result = ToolResult::text(&call, "3");
    let mut response = ModelResponse::text("");
    response.message.parts = vec![ContentPart::ToolCall(call)];
    response.stop = StopReason::ToolUse;
    response.usage = Usage::new(100, 10);
    (response, result)
}

fn round(run: &mut Run, response: ModelResponse, result: ToolResult) -> Result<()> {
    let now = Timestamp::default();
    let model_call = run.next_step(now);
    run.apply(JournalEntry::ModelResponded { response: Box::new(response), cost: None, at: now })?;
    let calls = run.next_step(now);
    run.apply(JournalEntry::ToolFinished {
        result: Box::new(result),
        invalid_arguments: false,
        at: now,
    })?;
    run.apply(JournalEntry::Saved)?;
    match (model_call, calls) {
        (Step::CallModel { .. }, Step::CallTools(_)) => Ok(()),
        other => Err(format!("the machine took other steps: {other:?}").into()),
    }
}
