//! One worker with one place: whoever waits for children gives it up, or they could never begin.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::team::Team;
use provost_agent::{Agent, FanOut, Subagent};
use provost_bus::Topic;
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::scheduling::ExecutionClassKey;
use provost_core::{Env, RunId};
use provost_engine::{AgentRevision, ChildLimits, EngineOptions, Lease, child_tools};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, calls, text as says};
use provost_store::query;
use provost_store::table::work::run;
use serde_json::{Value, json};

use crate::children::{first_words, replay_all, results, timeouts, until_phase};
use crate::harness::{Harness, options, text};
use crate::subagents::told;

/// A stage with room for one run, whose agents have every way to start others.
async fn harness(lead: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static) -> Harness {
    stage_at(Env::system(), lead).await
}

/// What the agents below do: one that is told to listen says that it does, and waits for a word.
fn below(request: &ChatRequest) -> ScriptedTurn {
    match (first_words(request).as_str(), results(request).len()) {
        ("listen", 0) => call("send_message", json!({"to": "__lead__", "content": "ready"})),
        ("listen", 1) => call("wait_for_messages", json!({"timeout": 600})),
        ("listen", _) => says(contents(request).unwrap_or_else(|| "nobody spoke".to_owned())),
        (other, _) => says(format!("did {other}")),
    }
}

/// What the messages say that were read last.
fn contents(request: &ChatRequest) -> Option<String> {
    let messages: Vec<Value> = serde_json::from_str(&told(request)).ok()?;
    let said = messages.iter().filter_map(|message| message["content"].as_str());
    Some(said.collect::<Vec<_>>().join(", "))
}

async fn stage_at(
    env: Env,
    lead: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
) -> Harness {
    let lead = Arc::new(lead);
    let agents = move |_: &AgentRevision, _: &Lease| {
        let lead = Arc::clone(&lead);
        let above = ScriptedModel::from_fn(move |request, _| lead(request));
        let below = ScriptedModel::from_fn(|request, _| below(request));
        let child = Agent::builder("child", below).build().unwrap();
        let agent = Agent::builder("default", above)
            .subagent(Subagent::new(&child, "Does one thing"))
            .fan_out(FanOut::new(&child, "each", "Does many things").concurrency(3))
            .team(Team::new("crew").template(&child, "Does a part"))
            .tools(child_tools()?);
        Ok(agent.build().unwrap())
    };
    let children = ChildLimits { active: 1, ..ChildLimits::default() };
    let one = EngineOptions { capacity: 1, children, ..options() };
    Harness::of(one, env, agents).await
}

/// Two leads at once come to their end, in a class with one place.
async fn both_end(harness: &Harness, expected: &str) {
    let first = harness.say("first", "go").await;
    let second = harness.say("second", "go").await;
    let classes = query::execution_class::list(harness.engine.store(), &harness.namespace, "", 9)
        .await
        .unwrap();
    let key: ExecutionClassKey = classes[0].key.parse().unwrap();
    harness.engine.classes().set_target(&harness.namespace, &key, 1).await.unwrap();
    let _worker = harness.worker().await;
    for lead in [first, second] {
        let ended = harness.wait(lead.run).await;
        assert_eq!((ended.status.as_str(), text(&ended).as_str()), ("ok", expected), "{ended:?}");
        let id = lead.run;
        let children = harness.engine.store().read(move |tx| run::children(tx, id)).await.unwrap();
        assert!(!children.is_empty() && children.iter().all(|child| child.status == RunStatus::Ok));
    }
    replay_all(harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_ends_where_one_run_at_a_time_may_work() {
    let harness = harness(|request| match told(request).as_str() {
        "" => call("each", json!({"tasks": ["a", "b", "c", "d", "e"]})),
        told => {
            let told: Value = serde_json::from_str(told).unwrap();
            says(format!("{} done", told["completed"]))
        }
    });
    both_end(&harness.await, "5 done").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agents_end_where_one_run_at_a_time_may_work() {
    let harness = harness(|request| match results(request).len() {
        0 => calls([("child", json!({"task": "a"})), ("child", json!({"task": "b"}))]),
        _ => says(results(request).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")),
    });
    both_end(&harness.await, "did a, did b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_child_ends_where_one_run_at_a_time_may_work() {
    let harness = harness(|request| match results(request).len() {
        0 => call("child", json!({"task": "a", "background": true})),
        1 => call("get_task_result", json!({"task_id": "task-1", "wait": true})),
        _ => {
            let told: Value = serde_json::from_str(&told(request)).unwrap();
            says(told["result"].as_str().unwrap())
        }
    });
    both_end(&harness.await, "did a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_end_where_one_run_at_a_time_may_work() {
    let harness = harness(|request| {
        let results = results(request);
        match (first_words(request).as_str(), results.len()) {
            ("go", 0) => call("spawn_task", json!({"message": "a"})),
            ("go", 1) => call("await_tasks", json!({"runs": [results[0]["run"]]})),
            ("go", _) => says(results[1]["tasks"][0]["result"].as_str().unwrap()),
            (other, _) => says(format!("did {other}")),
        }
    });
    both_end(&harness.await, "did a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_ends_where_one_run_at_a_time_may_work() {
    let harness = harness(|request| match results(request).len() {
        0 => call("spawn_teammate", json!({"name": "ann", "template": "child", "task": "a"})),
        1 => call("wait_for_messages", json!({"timeout": 600})),
        _ => {
            let told: Value = serde_json::from_str(&told(request)).unwrap();
            says(told[0]["from"].as_str().unwrap())
        }
    });
    both_end(&harness.await, "ann").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_that_ends_before_its_team_lets_it_work() {
    let harness = harness(|request| match results(request).len() {
        0 => call("spawn_teammate", json!({"name": "ann", "template": "child", "task": "a"})),
        _ => says("over"),
    });
    both_end(&harness.await, "over").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_and_its_member_wait_for_each_other_by_turns() {
    let harness = harness(|request| match results(request).len() {
        0 => call("spawn_teammate", json!({"name": "ann", "template": "child", "task": "listen"})),
        1 | 3 => call("wait_for_messages", json!({"timeout": 600})),
        2 if contents(request).as_deref() == Some("ready") => {
            call("send_message", json!({"to": "ann", "content": "hello"}))
        }
        _ => says(contents(request).unwrap_or_default()),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let ended = harness.wait(harness.say("chat", "go").await.run).await;
    assert!(text(&ended).contains("hello"), "{}", text(&ended));
    replay_all(&harness).await;
}

/// Waits until a run is parked for so many milliseconds at most.
async fn until_waiting(harness: &Harness, id: RunId, timeout_ms: u64) {
    let looking = async {
        let mut hints = harness.engine.store().bus().subscribe(Topic::Wakeups);
        loop {
            let row =
                query::run::get(harness.engine.store(), &harness.namespace, id).await.unwrap();
            if row.phase == RunPhase::Parked
                && timeouts(harness, id).await == [u128::from(timeout_ms)]
            {
                return;
            }
            drop(tokio::time::timeout(Duration::from_millis(50), hints.recv()).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("it waits")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_messages_ends_when_its_time_is_over_and_the_team_with_its_lead() {
    let env = Env::simulated(7);
    let harness = stage_at(env.clone(), |request| match results(request).len() {
        0 => call("spawn_teammate", json!({"name": "ann", "template": "child", "task": "listen"})),
        1 => call("wait_for_messages", json!({"timeout": 600})),
        2 => call("wait_for_messages", json!({"timeout": 60})),
        _ => says(told(request)),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let lead = harness.say("chat", "go").await.run;
    // Woken once, for the first word of its member, and then it waits again: as does the member.
    until_waiting(&harness, lead, 60_000).await;
    let member = harness.engine.store().read(move |tx| run::children(tx, lead)).await.unwrap();
    until_phase(&harness, member[0].id, "parked").await;
    env.advance(Duration::from_secs(61));
    let ended = harness.wait(lead).await;
    assert_eq!(text(&ended), "No message arrived within 60 seconds.");
    let member = harness.wait(member[0].id).await;
    assert_eq!((member.status.as_str(), text(&member).as_str()), ("ok", "nobody spoke"));
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_tasks_counts_only_tasks() {
    let harness = harness(|request| {
        let results = results(request);
        match (first_words(request).as_str(), results.len()) {
            ("go", 0) => call("child", json!({"task": "a", "background": true})),
            ("go", 1 | 2) => call("spawn_task", json!({"message": "b"})),
            ("go", _) => says(format!("{}, then {}", results[1]["status"], results[2])),
            (other, _) => says(format!("did {other}")),
        }
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    // Nobody else can work meanwhile: what it starts is there and has not ended.
    let ended = harness.wait(harness.say("chat", "go").await.run).await;
    let said = text(&ended);
    assert!(said.starts_with("\"accepted\", then "), "{said}");
    assert!(said.contains("is full, 1 are allowed"), "{said}");
}
