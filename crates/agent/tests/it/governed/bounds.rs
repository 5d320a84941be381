//! The models and the tokens that policies give a run, with its hand-offs and children.

use std::sync::Arc;

use provost_agent::context::{ContextConfig, Summarize};
use provost_agent::{
    Agent, Error, Handoff, HistoryPolicy, LimitDecision, OnLimit, RunResult, Subagent,
};
use provost_core::{LimitKind, Limits, StopReason, Usage};
use provost_model::{
    Endpoint, ModelErrorClass, RoutedModel, ScriptedModel, ScriptedTurn, call, fail, text,
};
use serde_json::json;

use super::{Policy, Shifting, one_call};

/// A model with a name.
fn named(name: &str, model: ScriptedModel) -> ScriptedModel {
    model.with_info(|info| info.model = name.to_owned())
}

fn allowing(models: &[&str]) -> Policy {
    let models: Vec<String> = models.iter().map(|model| (*model).to_owned()).collect();
    Policy { models, ..Policy::rule("allow") }
}

fn giving(tokens: u64) -> Shifting {
    Shifting::new([Policy { tokens: Some(tokens), ..Policy::rule("allow") }])
}

fn denied(result: Result<RunResult, Error>, model: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code(), "model_denied");
    assert_eq!(error.to_string(), format!("policy `p` does not allow model `{model}`"));
    assert!(matches!(error, Error::Policy(denied) if denied.policy.as_deref() == Some("p")));
}

#[tokio::test]
async fn m4_a_model_that_a_policy_does_not_allow_is_not_asked() {
    for (models, allowed) in
        [(&["good"][..], false), (&["good", "BAD"], true), (&["scripted/bad"], true), (&[], true)]
    {
        let model = named("bad", one_call());
        let agent = Shifting::new([allowing(models)]).agent(&Arc::default(), model.clone());
        let result = agent.run("go").await;
        match allowed {
            true => assert_eq!(result.unwrap().text, "done"),
            false => denied(result, "bad"),
        }
        assert_eq!(model.call_count(), if allowed { 2 } else { 0 }, "{models:?}");
    }
}

#[tokio::test]
async fn m4_a_route_asks_no_endpoint_that_a_policy_does_not_allow() {
    for (models, allowed) in [(&["good"][..], false), (&["good", "bad"], true)] {
        let down = fail(ModelErrorClass::Overloaded, "too much to do");
        let good = named("good", ScriptedModel::new().turn(down));
        let bad = named("bad", ScriptedModel::new().turn(text("done")));
        let route = RoutedModel::builder()
            .endpoint(Endpoint::new("first", good.clone()))
            .endpoint(Endpoint::new("second", bad.clone()))
            .build()
            .unwrap();
        let agent = Agent::builder("clerk", route)
            .guard_services(Shifting::new([allowing(models)]).guard_services())
            .build()
            .unwrap();
        let result = agent.run("go").await;
        match allowed {
            true => assert_eq!(result.unwrap().text, "done"),
            false => denied(result, "bad"),
        }
        let asked = u32::from(allowed) as usize;
        assert_eq!((good.call_count(), bad.call_count()), (asked, asked), "{models:?}");
    }
}

#[tokio::test]
async fn m4_what_cannot_be_read_lets_no_model_be_asked() {
    let model = one_call();
    let agent = Shifting::new([Policy::unreadable()]).agent(&Arc::default(), model.clone());
    let error = agent.run("go").await.unwrap_err();
    assert_eq!((error.code(), model.call_count()), ("model_denied", 0));
    assert!(error.to_string().contains("could not be read"), "{error}");
}

#[tokio::test]
async fn m4_a_hand_off_does_not_lead_to_another_model() {
    let bad = named("bad", ScriptedModel::new().turn(text("never")));
    let clerk = Agent::builder("cashier", bad.clone()).build().unwrap();
    let good = ScriptedModel::new().turn(call("transfer_to_cashier", json!({})));
    let lead = Agent::builder("clerk", named("good", good))
        .handoff(Handoff::to(&clerk, "pays"))
        .guard_services(Shifting::new([allowing(&["good"])]).guard_services())
        .build()
        .unwrap();
    denied(lead.run("go").await, "bad");
    assert_eq!(bad.call_count(), 0);
    // Neither does the summary that the other one is to get.
    let good = ScriptedModel::new().turn(call("transfer_to_cashier", json!({})));
    let cashier = Agent::builder("cashier", one_call()).build().unwrap();
    let to = Handoff::to(&cashier, "pays").history(HistoryPolicy::summary(bad.clone()));
    let lead = Agent::builder("clerk", named("good", good))
        .handoff(to)
        .guard_services(Shifting::new([allowing(&["good"])]).guard_services())
        .build()
        .unwrap();
    denied(lead.run("go").await, "bad");
    assert_eq!(bad.call_count(), 0);
}

#[tokio::test]
async fn m4_a_child_and_a_summary_ask_no_other_model_either() {
    let bad = named("bad", ScriptedModel::new().turn(text("never")));
    let child = Agent::builder("helper", bad.clone()).build().unwrap();
    let good = ScriptedModel::new().turn(call("helper", json!({"task": "x"}))).turn(text("done"));
    let lead = Agent::builder("clerk", named("good", good.clone()))
        .subagent(Subagent::new(&child, "Helps"))
        .guard_services(Shifting::new([allowing(&["good"])]).guard_services())
        .build()
        .unwrap();
    assert_eq!(lead.run("go").await.unwrap().text, "done");
    let told = good.request(1).messages.iter().flat_map(|m| m.tool_results().cloned()).next();
    let told = told.unwrap().to_text();
    assert!(told.contains("policy `p` does not allow model `bad`"), "{told}");
    let long = "word ".repeat(400);
    let agent = Agent::builder("clerk", named("good", one_call()))
        .context(
            ContextConfig::new(Summarize::new(Arc::new(bad.clone())).keep_recent(1))
                .max_tokens(100),
        )
        .guard_services(Shifting::new([allowing(&["good"])]).guard_services())
        .build()
        .unwrap();
    denied(agent.run(long.as_str()).await, "bad");
    assert_eq!(bad.call_count(), 0);
}

/// Pays for ever, at 100 tokens each time.
fn spends() -> ScriptedModel {
    ScriptedModel::from_fn(|_, _| call("pay", json!({})).usage(Usage::new(90, 10)))
}

#[tokio::test]
async fn m4_a_run_ends_when_the_tokens_of_its_policy_are_used_up() {
    for (limits, allowed) in [
        (Limits::default(), "250"),
        (Limits { total_tokens: Some(150), ..Limits::default() }, "150"),
    ] {
        let model = spends();
        let agent = giving(250).agent(&Arc::default(), model.clone());
        let result = agent.run("go").limits(limits).await.unwrap();
        let limit = result.limit.clone().unwrap();
        assert_eq!((result.stop, limit.limit), (StopReason::Limit, LimitKind::TotalTokens));
        assert_eq!(limit.allowed, allowed);
        assert_eq!(model.call_count(), if allowed == "250" { 3 } else { 2 });
    }
}

#[tokio::test]
async fn m4_nobody_extends_what_a_policy_gives() {
    let model = spends();
    let house = giving(350);
    let agent = Agent::builder("clerk", model.clone())
        .tool(super::pay(&Arc::default()))
        .limits(Limits { total_tokens: Some(150), ..Limits::default() })
        .on_limit(OnLimit::callback(|_| {
            std::future::ready(Ok(LimitDecision::Extend { message: None }))
        }))
        .guard_services(house.guard_services())
        .build()
        .unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!(result.limit.clone().unwrap().allowed, "350", "{result:?}");
    assert_eq!(model.call_count(), 4);
}

#[tokio::test]
async fn m4_what_cannot_be_counted_cannot_be_bounded() {
    let model = ScriptedModel::new()
        .turn(ScriptedTurn::default().call("pay", json!({})).without_usage())
        .turn(text("never"));
    let agent = giving(1_000).agent(&Arc::default(), model.clone());
    let result = agent.run("go").await.unwrap();
    let limit = result.limit.unwrap();
    assert!(limit.used.contains("unknown"), "{limit:?}");
    assert_eq!(model.call_count(), 1);
}

#[tokio::test]
async fn m4_children_use_the_tokens_of_the_run_above() {
    let below = spends();
    let paid = Arc::default();
    let child = Agent::builder("helper", below.clone()).tool(super::pay(&paid)).build().unwrap();
    let asks = call("helper", json!({"task": "x"})).usage(Usage::new(40, 10));
    let above = ScriptedModel::new().turn(asks).turn(text("never"));
    let lead = Agent::builder("clerk", above.clone())
        .subagent(Subagent::new(&child, "Helps"))
        .guard_services(giving(250).guard_services())
        .build()
        .unwrap();
    let result = lead.run("go").await.unwrap();
    assert_eq!(result.limit.clone().unwrap().allowed, "250", "{result:?}");
    assert_eq!((above.call_count(), below.call_count()), (1, 2));
}
