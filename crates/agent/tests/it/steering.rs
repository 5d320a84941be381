//! Talking to a live run, and stopping it.

mod stopping;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use provost_agent::{
    Agent, LimitDecision, OnLimit, RunHandle, RunHandleError, RunOutcome, RunStream,
};
use provost_core::usage::limits::RUN_MESSAGES_PENDING_MAX;
use provost_core::{Event, EventKind, Limits};
use provost_model::{ScriptedModel, StructuredOutputSupport, call, calls, text};
use provost_tool::{FnTool, ToolError, tool_fn};
use serde_json::json;

use crate::support::{Say, assert_well_formed, echo, ended, names};

/// Reads a run to its end and does something to it at each event.
async fn steered<O: Send + 'static>(
    mut stream: RunStream<O>,
    mut at: impl FnMut(&RunHandle, &EventKind),
) -> Vec<Event> {
    let handle = stream.handle();
    let mut all = Vec::new();
    while let Some(event) = stream.next().await {
        at(&handle, &event.kind);
        all.push(event);
    }
    all
}

/// What each message of a request says, in short.
fn said(model: &ScriptedModel, index: usize) -> Vec<String> {
    let request = model.request(index);
    assert_well_formed(&request.messages);
    let brief = |message: &Arc<provost_core::Message>| {
        let calls = message.tool_calls().map(|call| format!("call {}", call.name));
        let results = message.tool_results().map(|result| result.to_text());
        let text = Some(message.text()).filter(|text| !text.is_empty());
        text.into_iter().chain(calls).chain(results).collect::<Vec<_>>().join("+")
    };
    request.messages.iter().map(brief).collect()
}

/// A tool that runs something when it is called.
fn doing(action: impl Fn() + Send + Sync + 'static) -> FnTool {
    tool_fn("doing", "Does something", move |_cx, _args: Say| {
        action();
        async { Ok::<_, ToolError>("did") }
    })
    .unwrap()
}

#[tokio::test]
async fn a_steering_message_is_seen_before_the_next_model_call() {
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let agent =
        Agent::builder("tester", model.clone()).tool(echo(&Arc::default())).build().unwrap();
    let events = steered(agent.run("hi").stream(), |handle, event| {
        if matches!(event, EventKind::ToolFinished { .. }) {
            handle.steer("in English, please").unwrap();
        }
    })
    .await;
    assert_eq!(said(&model, 1), ["hi", "call echo", "echo: ", "in English, please"]);
    let heard = names(&events).iter().filter(|name| *name == "user_message").count();
    assert_eq!(heard, 2, "the message is an event, like the first one");
}

#[tokio::test]
async fn what_is_said_while_tools_run_follows_their_results() {
    let model = ScriptedModel::new().turn(call("doing", json!({}))).turn(text("done"));
    let handle: Arc<Mutex<Option<RunHandle>>> = Arc::default();
    let shared = Arc::clone(&handle);
    let tool = doing(move || shared.lock().unwrap().as_ref().unwrap().steer("hurry").unwrap());
    let agent = Agent::builder("tester", model.clone()).tool(tool).build().unwrap();
    let stream = agent.run("hi").stream();
    *handle.lock().unwrap() = Some(stream.handle());
    stream.outcome().await.unwrap();
    assert_eq!(said(&model, 1), ["hi", "call doing", "did", "hurry"]);
}

#[tokio::test]
async fn what_is_said_while_a_call_runs_alone_skips_those_behind_it() {
    let model = ScriptedModel::new()
        .turn(calls([("doing", json!({})), ("echo", json!({}))]))
        .turn(text("done"));
    let handle: Arc<Mutex<Option<RunHandle>>> = Arc::default();
    let shared = Arc::clone(&handle);
    let tool = doing(move || shared.lock().unwrap().as_ref().unwrap().steer("not that").unwrap());
    let ran = Arc::<AtomicUsize>::default();
    let builder = Agent::builder("tester", model.clone()).tool(tool).tool(echo(&ran));
    let agent = builder.max_parallel_tools(1).build().unwrap();
    let stream = agent.run("hi").stream();
    *handle.lock().unwrap() = Some(stream.handle());
    stream.outcome().await.unwrap();
    let said = said(&model, 1);
    assert_eq!(said[..2], ["hi", "call doing+call echo"]);
    assert!(said[2].starts_with("did+This call was skipped"), "each has its result: {said:?}");
    assert_eq!((&said[3..], ran.load(Ordering::SeqCst)), (&["not that".to_owned()][..], 0));
}

#[tokio::test]
async fn what_is_said_during_the_last_answer_is_still_answered() {
    let model = ScriptedModel::new().turn(text("first")).turn(text("second"));
    let agent = Agent::builder("tester", model.clone()).build().unwrap();
    let events = steered(agent.run("hi").stream(), |handle, event| {
        if matches!(event, EventKind::TextDelta { text } if text == "first") {
            handle.steer("one").unwrap();
            handle.steer("two").unwrap();
        }
    })
    .await;
    assert_eq!(said(&model, 1), ["hi", "first", "one", "two"]);
    let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
    assert_eq!((summary.text.as_str(), summary.turns), ("second", 2));
}

#[tokio::test]
async fn a_follow_up_waits_for_the_answer() {
    let model = ScriptedModel::new()
        .turn(call("echo", json!({})))
        .turn(text("first"))
        .turn(text("second"))
        .turn(text("third"));
    let agent =
        Agent::builder("tester", model.clone()).tool(echo(&Arc::default())).build().unwrap();
    let stream = agent.run("hi").stream();
    stream.handle().follow_up("and then?").unwrap();
    stream.handle().follow_up("and at last?").unwrap();
    let RunOutcome::Completed(result) = stream.outcome().await.unwrap() else { panic!() };
    assert_eq!(said(&model, 1).len(), 3, "not while the agent is at work");
    assert_eq!(said(&model, 2)[3..], ["first", "and then?"]);
    assert_eq!(said(&model, 3)[5..], ["second", "and at last?"], "one at a time");
    assert_eq!((result.output.as_str(), result.messages.len()), ("third", 8));
}

#[tokio::test]
async fn a_message_is_accepted_or_refused_but_never_lost() {
    // Whatever the moment of the message: either the model sees it, or the sender is told that the run is over.
    let probe = || ScriptedModel::from_fn(|request, _| text(format!("{}", request.messages.len())));
    let quiet = Agent::builder("tester", probe()).build().unwrap();
    let length = steered(quiet.run("hi").stream(), |_, _| {}).await.len();
    for moment in 0..length {
        let model = probe();
        let agent = Agent::builder("tester", model.clone()).build().unwrap();
        let (mut seen, mut accepted) = (0, None);
        steered(agent.run("hi").stream(), |handle, _| {
            if seen == moment {
                accepted = Some(handle.steer("late").is_ok());
            }
            seen += 1;
        })
        .await;
        let answered = model
            .requests()
            .iter()
            .any(|request| request.messages.iter().any(|message| message.text() == "late"));
        assert_eq!(accepted, Some(answered), "at event {moment} of {length}");
    }
}

#[tokio::test]
async fn a_run_that_is_over_takes_nothing_more() {
    let agent = Agent::builder("tester", ScriptedModel::new().turn(text("done"))).build().unwrap();
    let stream = agent.run("hi").stream();
    let handle = stream.handle();
    stream.outcome().await.unwrap();
    assert_eq!(handle.steer("hello?"), Err(RunHandleError::RunEnded));
    assert_eq!(handle.follow_up("hello?"), Err(RunHandleError::RunEnded));
    let id = provost_core::Env::simulated(1).id();
    assert_eq!(
        handle.decide(id, provost_core::ApprovalDecision::Approve),
        Err(RunHandleError::RunEnded)
    );
}

#[tokio::test]
async fn a_run_that_was_told_to_stop_takes_nothing_more() {
    let agent = Agent::builder("tester", ScriptedModel::new().turn(text("done"))).build().unwrap();
    let stream = agent.run("hi").stream();
    let handle = stream.handle();
    handle.cancel();
    assert_eq!(
        handle.steer("hello?"),
        Err(RunHandleError::RunEnded),
        "nobody would ever answer it"
    );
    let stream = agent.run("hi").stream();
    let handle = stream.handle();
    drop(stream);
    assert_eq!(handle.follow_up("hello?"), Err(RunHandleError::RunEnded));
}

#[tokio::test]
async fn the_inbox_is_bounded() {
    let model = ScriptedModel::new().turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).build().unwrap();
    let stream = agent.run("hi").stream();
    let handle = stream.handle();
    for number in 0..RUN_MESSAGES_PENDING_MAX {
        handle.steer(format!("{number}")).unwrap();
    }
    assert_eq!(handle.steer("one too many"), Err(RunHandleError::QueueFull));
    stream.outcome().await.unwrap();
    let said = said(&model, 0);
    assert_eq!(said.len(), 1 + RUN_MESSAGES_PENDING_MAX);
    assert_eq!(
        (said[1].as_str(), said[RUN_MESSAGES_PENDING_MAX].as_str()),
        ("0", "63"),
        "in order"
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_waits_at_a_safe_point() {
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count)).build().unwrap();
    let calls = model.clone();
    let events = steered(agent.run("hi").stream(), |handle, event| match event {
        EventKind::ToolStarted { .. } => handle.pause(),
        EventKind::Paused => {
            assert_eq!((calls.call_count(), count.load(Ordering::SeqCst)), (1, 1));
            let (handle, calls) = (handle.clone(), calls.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                assert_eq!(calls.call_count(), 1, "nothing happened in the meantime");
                handle.steer("good morning").unwrap();
                handle.resume();
            });
        }
        _ => {}
    })
    .await;
    let names = names(&events);
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    assert!(place("tool_finished") < place("paused"), "the round ends first: {names:?}");
    assert_eq!(place("unpaused"), place("paused") + 1);
    assert_eq!(said(&model, 1)[3], "good morning", "a message for a paused run is kept");
}

#[tokio::test]
async fn a_run_paused_before_it_starts_asks_no_model() {
    let model = ScriptedModel::new().turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).build().unwrap();
    let stream = agent.run("hi").stream();
    stream.handle().pause();
    let calls = model.clone();
    let events = steered(stream, |handle, event| {
        if matches!(event, EventKind::Paused) {
            assert_eq!(calls.call_count(), 0);
            handle.resume();
        }
    })
    .await;
    assert!(events.last().unwrap().kind.is_terminal());
    assert_eq!(model.call_count(), 1);
}

#[derive(serde::Deserialize, schemars::JsonSchema, Debug, PartialEq)]
struct Point {
    x: i32,
}

/// Steering that arrives with a typed answer, in each way such an answer can be asked for.
#[tokio::test]
async fn what_is_said_during_a_typed_answer_is_still_answered() {
    for native in [StructuredOutputSupport::WithTools, StructuredOutputSupport::None] {
        let answer = |x: i32| match native {
            StructuredOutputSupport::None => call("final_answer", json!({ "x": x })),
            _ => text(format!(r#"{{"x":{x}}}"#)),
        };
        let model = ScriptedModel::new().turn(answer(1)).turn(answer(2));
        let model = model.with_info(|info| info.native_output = native);
        let agent = Agent::builder("tester", model.clone()).output::<Point>().build().unwrap();
        let mut steered_once = false;
        let events = steered(agent.run("hi").stream(), |handle, event| {
            if matches!(event, EventKind::TextDelta { .. } | EventKind::ToolCallStarted { .. })
                && !std::mem::replace(&mut steered_once, true)
            {
                handle.steer("rather two").unwrap();
            }
        })
        .await;
        assert_eq!(model.call_count(), 2, "{native:?}");
        assert_eq!(said(&model, 1).last().unwrap(), "rather two");
        let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
        assert_eq!(summary.text, r#"{"x":2}"#);
    }
}

#[tokio::test]
async fn what_is_said_at_a_limit_keeps_the_conversation_valid() {
    let decisions = [
        LimitDecision::Extend { message: None },
        LimitDecision::ExtendWithoutCalls { result: None, message: None },
        LimitDecision::FinalAnswer { message: None },
    ];
    for decision in decisions {
        let model = ScriptedModel::new()
            .turn(call("echo", json!({})))
            .turn(call("echo", json!({})))
            .turn(text("done"));
        let given = decision.clone();
        let agent = Agent::builder("tester", model.clone())
            .tool(echo(&Arc::default()))
            .limits(Limits::default().turns(1))
            .on_limit(OnLimit::callback(move |_| std::future::ready(Ok(given.clone()))))
            .build()
            .unwrap();
        let mut turns = 0;
        steered(agent.run("hi").stream(), |handle, event| {
            if matches!(event, EventKind::TurnFinished { .. }) {
                turns += 1;
                if turns == 2 {
                    handle.steer("hurry").unwrap();
                }
            }
        })
        .await;
        let said = said(&model, 2);
        assert!(said.contains(&"hurry".to_owned()), "{decision:?}: {said:?}");
    }
}

#[tokio::test]
async fn a_message_that_a_limit_leaves_unanswered_is_reported() {
    let model = ScriptedModel::new().turn(call("echo", json!({})));
    let agent = Agent::builder("tester", model.clone())
        .tool(echo(&Arc::default()))
        .limits(Limits::default().turns(0))
        .build()
        .unwrap();
    let events = steered(agent.run("hi").stream(), |handle, event| {
        if matches!(event, EventKind::TurnFinished { .. }) {
            handle.steer("hello?").unwrap();
        }
    })
    .await;
    assert!(names(&events).contains(&"warning".to_owned()), "{events:?}");
    assert!(matches!(events.last().unwrap().kind, EventKind::Finished { .. }));
}

#[tokio::test]
async fn s240_runs_of_one_agent_do_not_influence_each_other() {
    struct User(&'static str);
    let model = ScriptedModel::from_fn(|request, _| match request.last_tool_result() {
        None => call("whoami", json!({})).delay(Duration::from_millis(5)),
        Some(result) => {
            text(format!("{} / {}", request.system.as_deref().unwrap(), result.to_text()))
        }
    });
    let whoami = tool_fn("whoami", "Says who", |cx, _args: Say| async move {
        let visits: u32 = cx.state().get("visits").unwrap_or(0);
        cx.state().set("visits", visits + 1)?;
        tokio::task::yield_now().await;
        Ok::<_, ToolError>(format!("{} {}", cx.dep::<User>()?.0, visits + 1))
    });
    let agent = Agent::builder("tester", model)
        .instructions("Serve {{ name }}.")
        .state("visits", 0)
        .tool(whoami.unwrap())
        .build()
        .unwrap();
    let run = |name: &'static str, streaming| {
        ended(agent.run(name).dep(User(name)).state("name", name), streaming)
    };
    let (a, b, c) = tokio::join!(run("Ada", false), run("Bob", true), run("Cy", false));
    assert_eq!(a.unwrap().text, "Serve Ada. / Ada 1");
    assert_eq!(b.unwrap().text, "Serve Bob. / Bob 1");
    assert_eq!(c.unwrap().text, "Serve Cy. / Cy 1");
}

#[tokio::test(start_paused = true)]
async fn a_pause_does_not_stop_the_clock() {
    let model = ScriptedModel::new().turn(text("never"));
    let agent = Agent::builder("tester", model.clone())
        .limits(Limits::default().wall(Duration::from_secs(3)))
        .build()
        .unwrap();
    let stream = agent.run("go").stream();
    stream.handle().pause();
    let RunOutcome::Completed(result) = stream.outcome().await.unwrap() else { panic!() };
    assert_eq!(result.limit.as_ref().unwrap().limit, provost_core::LimitKind::Wall);
    assert_eq!(model.call_count(), 0);
}
