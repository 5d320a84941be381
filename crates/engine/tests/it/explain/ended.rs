//! Runs that a provider, a tool, a limit or a rule ended.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_agent::hook::{Hook, HookError, StartDecision};
use provost_agent::{Agent, AgentBuilder};
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_core::recovery::{EffectClass, UnknownEffectPolicy};
use provost_core::{Env, ErrorInfo, ErrorKind, Limits};
use provost_engine::{AgentRevision, EngineOptions, Lease};
use provost_model::{self as scripted, ModelErrorClass, ScriptedModel, ScriptedTurn};
use provost_tool::{FnTool, RunContext, ToolError, ToolSpec};
use serde_json::json;

use super::{named, named_by, until};
use crate::cluster::{Cluster, quick};
use crate::harness::{Harness, command, options};

/// A stage whose one agent is made for the test.
async fn harness(
    turn: impl Fn() -> ScriptedTurn + Clone + Send + Sync + 'static,
    make: impl Fn(AgentBuilder) -> AgentBuilder + Send + Sync + 'static,
) -> Harness {
    let agents = move |_: &AgentRevision, _: &Lease| {
        let turn = turn.clone();
        let model = ScriptedModel::from_fn(move |_, _| turn());
        Ok(make(Agent::builder("default", model)).build().unwrap())
    };
    Harness::of(options(), Env::system(), agents).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_failed_in_each_of_its_ways() {
    for (class, code, names) in [
        (ModelErrorClass::Auth, "ended_provider_auth", "rejected the credential"),
        (ModelErrorClass::QuotaExceeded, "ended_provider_auth", "no credit left"),
        (ModelErrorClass::ContextLength, "ended_context_overflow", "does not fit the model"),
        (ModelErrorClass::InvalidRequest, "ended_provider_bad_request", "rejected the request"),
        (ModelErrorClass::Overloaded, "ended_provider_overloaded", "gave up after 2 tries"),
        (ModelErrorClass::RateLimited, "ended_provider_rate_limited", "limits the request rate"),
    ] {
        let cluster = Cluster::answering(move |_, _| scripted::fail(class, "so it says")).await;
        let _worker = cluster.engine.start().await.unwrap();
        let retry = json!({"retry": {"max_attempts": 2, "delay_ms": 0}});
        let accepted = cluster.say_with("chat", retry).await;
        cluster.ended(accepted.run).await;
        let told =
            named(&cluster, accepted.run, code, &[&accepted.run, &names, &"so it says"]).await;
        let retry = format!("provost task retry {}", accepted.task);
        assert!(told.next.iter().any(|step| step.command == retry), "{told:#?}");
        let of_task = named(&cluster, accepted.task, code, &[&accepted.run]).await;
        assert_eq!(of_task.cause, told.cause, "a task that failed is explained by its run");
        cluster.engine.tasks().retry(&cluster.namespace, accepted.task).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_never_had_the_wanted_form() {
    let cluster =
        Cluster::answering(|_, _| scripted::fail(ModelErrorClass::InvalidRequest, "no")).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.ended(run).await;
    // Agents of the engine answer in words; one that does not ends with these.
    cluster.meddle("UPDATE run SET detail = 'the answer is not the wanted type: no `age`'").await;
    named(&cluster, run, "ended_invalid_output", &[&run, &"required format", &"no `age`"]).await;
}

fn failing(kind: ErrorKind) -> FnTool {
    let spec = ToolSpec::new("drill", "A tool", json!({"type": "object"})).unwrap();
    FnTool::new(spec.effect(EffectClass::Opaque), move |_, _| {
        let error = ErrorInfo::new(kind, "stuck", "the drill is stuck");
        Box::pin(std::future::ready(Err(ToolError::Fatal(error))))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_ended_the_run_or_took_too_long() {
    for (kind, code) in
        [(ErrorKind::Conflict, "ended_tool_error"), (ErrorKind::Timeout, "ended_tool_timeout")]
    {
        let call = || scripted::call("drill", json!({}));
        let harness = harness(call, move |agent| agent.tool(failing(kind))).await;
        let _worker = harness.worker().await;
        let run = harness.say("chat", "go").await.run;
        harness.wait(run).await;
        let names: [&dyn std::fmt::Display; 3] = [&run, &"`drill`", &"the drill is stuck"];
        named_by(&harness.engine, run, code, &names).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_can_tell_what_came_of_a_call_and_then_the_run_fails() {
    let cluster = Cluster::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    let node = cluster.node(EngineOptions { on_unknown: UnknownEffectPolicy::FailRun, ..quick() });
    let first = node.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let _worker = node.start().await.unwrap();
    cluster.ended(run).await;
    named(&cluster, run, "ended_effect_unclear", &[&run, &"`gate_opaque`", &"interrupted"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_agent_was_reached() {
    let call = || scripted::call("drill", json!({}));
    let limits = Limits { turns: Some(0), ..Limits::default() };
    let limited =
        move |agent: AgentBuilder| agent.tool(failing(ErrorKind::Bug)).limits(limits.clone());
    let harness = harness(call, limited).await;
    let _worker = harness.worker().await;
    let run = harness.say("chat", "go").await.run;
    harness.wait(run).await;
    named_by(&harness.engine, run, "ended_ok_at_limit", &[&run, &"limit of 0 turns of its agent"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_agent_was_over_before_its_first_step() {
    let limits = Limits { wall: Some(Duration::from_millis(20)), ..Limits::default() };
    let limited = move |agent: AgentBuilder| {
        agent.limits(limits.clone()).instructions_from(|_| std::future::pending())
    };
    let harness = harness(|| scripted::text("hello"), limited).await;
    let _worker = harness.worker().await;
    let run = harness.say("chat", "go").await.run;
    harness.wait(run).await;
    named_by(&harness.engine, run, "ended_wall_limit", &[&run, &"0.02s"]).await;
}

/// Lets nothing in.
struct Guard;

type Entered<'a> = Pin<Box<dyn Future<Output = Result<StartDecision, HookError>> + Send + 'a>>;

impl Hook for Guard {
    fn before_agent<'a, 'b, 'c, 'd>(&'a self, _cx: &'b RunContext, _input: &'c str) -> Entered<'d>
    where
        Self: 'd,
        'a: 'd,
        'b: 'd,
        'c: 'd,
    {
        Box::pin(std::future::ready(Ok(StartDecision::Deny("not on a Sunday".to_owned()))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_of_the_agent_refused_it() {
    let harness = harness(|| scripted::text("hello"), |agent| agent.hook(Guard)).await;
    let _worker = harness.worker().await;
    let run = harness.say("chat", "go").await.run;
    harness.wait(run).await;
    named_by(&harness.engine, run, "ended_policy_denied", &[&run, &"not on a Sunday"]).await;
    // Only an agent inside an agent can come to this, and says it so.
    let limit = "UPDATE run SET detail = 'the limit of 1 depth is reached: 2 is too many'";
    let changed =
        harness.engine.store().write(|tx| tx.execute_fenced(limit, provost_store::params![]));
    changed.await.unwrap();
    named_by(&harness.engine, run, "ended_limit", &[&run, &"the limit of 1 depth"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_defect_ended_it() {
    let agents = |_: &AgentRevision, _: &Lease| panic!("somebody else's mistake");
    let harness = Harness::of(options(), Env::system(), agents).await;
    let _worker = harness.worker().await;
    let once = crate::harness::patch(json!({"retry": {"max_attempts": 1}}));
    let asked = TaskRequest { policy: Some(once), ..command("chat", "go") };
    let run = harness.engine.submit(&harness.namespace, asked).await.unwrap().run;
    harness.wait(run).await;
    named_by(&harness.engine, run, "ended_internal", &[&run, &"panicked"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_crashed_again_and_again() {
    let cluster = Cluster::new(vec![scripted::text("never").hang()]).await;
    let run = cluster.say("chat", "go").await.run;
    for crash in 1..=5 {
        let worker = cluster.engine.start().await.unwrap();
        cluster.until(run, |row| row.epoch == crash && row.phase == RunPhase::Leased).await;
        until(&cluster.engine, run, "model_running").await;
        drop(worker);
    }
    let _worker = cluster.engine.start().await.unwrap();
    cluster.ended(run).await;
    named(&cluster, run, "ended_crash_loop", &[&run, &"5 times"]).await;
    assert!(!cluster.rooms.broken.load(Ordering::SeqCst));
    cluster.meddle("UPDATE run SET outcome_code = 'worker_lost'").await;
    named(&cluster, run, "ended_attempt_code", &[&run, &"worker_lost"]).await;
    cluster.meddle("UPDATE run SET outcome_code = NULL").await;
    named(&cluster, run, "ended_without_code", &[&run, &"no code"]).await;
    cluster.meddle("UPDATE run SET outcome_code = 'odd'").await;
    let subject = run.to_string().parse().unwrap();
    let unreadable =
        super::explain(&cluster.engine, &cluster.namespace, subject).await.unwrap_err();
    assert_eq!(unreadable.code(), "unreadable");
    let text = unreadable.to_string();
    assert!(text.contains("column `outcome_code` of table `run` is wrong: `odd`"), "{text}");
    assert!(text.contains(&format!("id `{run}`")), "{text}");
}
