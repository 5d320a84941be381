//! Tools that misbehave: the run stays whole, and the model learns what it can act on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_agent::{Agent, Error};
use provost_core::usage::limits::TOOL_OUTPUT_BYTES_MAX;
use provost_core::{ErrorInfo, ErrorKind, EventKind, ToolResult};
use provost_model::{ScriptedModel, ScriptedTurn, call, calls, text};
use provost_tool::{FnTool, ToolError, tool_fn};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{Say, assert_well_formed, echo, ended, endless, events};

/// What the model was told in its request `index`, in order.
fn told(model: &ScriptedModel, index: usize) -> Vec<ToolResult> {
    let request = model.request(index);
    assert_well_formed(&request.messages);
    request.messages.last().unwrap().tool_results().cloned().collect()
}

/// A tool that takes as many seconds as it is told and says when it runs.
fn slow(name: &str, log: &Arc<Mutex<Vec<String>>>) -> FnTool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Wait {
        seconds: u64,
    }
    let log = Arc::clone(log);
    tool_fn(name, "Takes its time", move |cx, args: Wait| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push(format!("+{}", cx.call_id()));
            sleep(Duration::from_secs(args.seconds)).await;
            log.lock().unwrap().push(format!("-{}", cx.call_id()));
            Ok::<_, ToolError>(format!("{} after {}", cx.call_id(), args.seconds))
        }
    })
    .unwrap()
}

fn panics() -> FnTool {
    tool_fn("panics", "Panics", |_cx, args: Say| async move {
        assert!(args.text != "panic", "such a pity");
        Ok::<_, ToolError>("calm")
    })
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn s231_a_panic_is_an_error_result_and_siblings_go_on() {
    for streaming in [false, true] {
        let log = Arc::default();
        let model = ScriptedModel::new()
            .turn(calls([
                ("panics", json!({ "text": "panic" })),
                ("slow", json!({ "seconds": 3 })),
            ]))
            .turn(call("panics", json!({ "text": "please not" })))
            .turn(text("done"));
        let agent = Agent::builder("tester", model.clone()).tool(panics()).tool(slow("slow", &log));
        let summary = ended(agent.build().unwrap().run("hi"), streaming).await.unwrap();
        assert_eq!(summary.text, "done");
        let results = told(&model, 1);
        assert!(results[0].is_error && results[0].to_text().contains("such a pity"), "{results:?}");
        assert_eq!(results[1].to_text(), "call_2 after 3", "the sibling went on");
        assert_eq!(told(&model, 2)[0].to_text(), "calm", "the tool itself can be called again");
    }
}

#[tokio::test(start_paused = true)]
async fn s232_a_timeout_is_an_error_result_and_frees_the_slot() {
    for streaming in [false, true] {
        let (alive, echoes) = (Arc::default(), Arc::default());
        let model = ScriptedModel::new()
            .turn(calls([("endless", json!({})), ("echo", json!({ "text": "b" }))]))
            .turn(text("done"));
        let endless = endless(&alive).with_spec(|spec| spec.timeout(Duration::from_secs(7)));
        let agent = Agent::builder("tester", model.clone())
            .tool(endless)
            .tool(echo(&echoes))
            .max_parallel_tools(1)
            .build()
            .unwrap();
        let start = tokio::time::Instant::now();
        ended(agent.run("hi"), streaming).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), 7);
        let results = told(&model, 1);
        assert!(results[0].is_error && results[0].to_text().contains("within 7 s"), "{results:?}");
        assert_eq!(results[1].to_text(), "echo: b");
        assert_eq!(alive.load(Ordering::SeqCst), 0, "the late call is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn s233_results_come_as_tools_finish_and_are_stored_in_call_order() {
    let log = Arc::default();
    let model = ScriptedModel::new()
        .turn(calls([
            ("slow", json!({ "seconds": 3 })),
            ("slow", json!({ "seconds": 1 })),
            ("slow", json!({ "seconds": 2 })),
        ]))
        .turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).tool(slow("slow", &log)).build().unwrap();
    let events = events(agent.run("hi").stream()).await;
    let finished: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolFinished { result, duration } => {
                Some((result.call_id.as_str(), duration.as_secs()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(finished, [("call_2", 1), ("call_3", 2), ("call_1", 3)]);
    let stored: Vec<_> = told(&model, 1).into_iter().map(|result| result.call_id).collect();
    assert_eq!(stored, ["call_1", "call_2", "call_3"]);
    let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
    let listed: Vec<_> = summary.tool_results.iter().map(|result| &result.call_id).collect();
    assert_eq!(listed, ["call_1", "call_2", "call_3"]);
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_tool_runs_alone() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let second = || json!({ "seconds": 1 });
    let model = ScriptedModel::new()
        .turn(calls([
            ("slow", second()),
            ("slow", second()),
            ("alone", second()),
            ("slow", second()),
            ("slow", second()),
        ]))
        .turn(text("done"));
    let alone = slow("alone", &log).with_spec(|spec| spec.exclusive());
    let agent = Agent::builder("tester", model).tool(slow("slow", &log)).tool(alone);
    agent.build().unwrap().run("hi").await.unwrap();
    let log = log.lock().unwrap().clone();
    let place = |entry: &str| log.iter().position(|other| other == entry).unwrap();
    assert_eq!(place("-call_3"), place("+call_3") + 1, "{log:?}");
    assert_eq!((place("+call_3"), place("-call_3")), (4, 5), "order is kept: {log:?}");
    assert!(place("+call_2") < place("-call_1"), "the others overlap: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fatal_tool_ends_the_run_and_its_siblings() {
    for streaming in [false, true] {
        let alive = Arc::new(AtomicUsize::new(0));
        let model =
            ScriptedModel::new().turn(calls([("endless", json!({})), ("fatal", json!({}))]));
        let fatal = tool_fn("fatal", "Ends it all", |_cx, _args: Say| async {
            sleep(Duration::from_secs(1)).await;
            let error = ErrorInfo::new(ErrorKind::Unavailable, "disk", "the disk is gone");
            Err::<String, _>(ToolError::Fatal(error))
        });
        let agent = Agent::builder("tester", model.clone())
            .tool(endless(&alive))
            .tool(fatal.unwrap())
            .build()
            .unwrap();
        if streaming {
            let error = ended(agent.run("hi"), streaming).await.unwrap_err();
            assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Unavailable, "disk"));
        } else {
            match agent.run("hi").await.unwrap_err() {
                Error::Tool { tool, error } => {
                    assert_eq!(
                        (tool.as_str(), error.message.as_str()),
                        ("fatal", "the disk is gone")
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        tokio::task::yield_now().await;
        assert_eq!(alive.load(Ordering::SeqCst), 0, "the sibling is gone");
        assert_eq!(model.call_count(), 1);
    }
}

/// A tool with nested arguments that allows one wrong try.
fn strict() -> FnTool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        age: u8,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Meet {
        who: Person,
    }
    let tool = tool_fn("meet", "Meets somebody", |_cx, args: Meet| async move {
        if args.who.age < 18 {
            return Err(ToolError::retry("only adults"));
        }
        Ok(args.who.age)
    });
    tool.unwrap().with_spec(|spec| spec.retries(1))
}

/// Plays turns against the strict tool; gives the model with what it was told.
async fn strict_run(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
    let model = model.turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).tool(strict()).build().unwrap();
    assert_eq!(agent.run("hi").await.unwrap().output, "done");
    model
}

fn meet(age: Value) -> ScriptedTurn {
    call("meet", json!({ "who": { "age": age } }))
}

#[tokio::test]
async fn wrong_arguments_go_back_with_their_path() {
    let model = strict_run([meet(json!("old")), meet(json!(30))]).await;
    let wrong = &told(&model, 1)[0];
    assert!(wrong.is_error && wrong.to_text().contains("who.age"), "{}", wrong.to_text());
    assert!(wrong.to_text().contains("last try"), "{}", wrong.to_text());
    assert_eq!(told(&model, 2)[0].to_text(), "30");
}

#[tokio::test]
async fn arguments_that_are_no_json_go_back() {
    let broken = ScriptedTurn::default().raw_call("x", "meet", r#"{"who": {"#);
    let model = strict_run([broken, meet(json!(30))]).await;
    let wrong = &told(&model, 1)[0];
    assert!(wrong.is_error && wrong.to_text().contains("not valid JSON"), "{}", wrong.to_text());
    assert_eq!(told(&model, 2)[0].to_text(), "30");
}

#[tokio::test]
async fn a_tool_is_withdrawn_when_its_retries_are_used_up() {
    let model = strict_run([meet(json!("old")), meet(json!(3)), meet(json!(30))]).await;
    let offered = |index: usize| model.request(index).tools.len();
    assert_eq!((offered(0), offered(1), offered(2), offered(3)), (1, 1, 0, 0));
    let last = told(&model, 2)[0].to_text();
    assert!(last.contains("only adults") && last.contains("Do not call this tool again"), "{last}");
    let gone = &told(&model, 3)[0];
    assert!(gone.is_error && gone.to_text().contains("there is no tool"), "{}", gone.to_text());
}

#[tokio::test]
async fn wrong_arguments_of_one_turn_count_each() {
    let turn = calls([("meet", json!({})), ("meet", json!({ "who": 1 }))]);
    let model = strict_run([turn]).await;
    assert_eq!(model.request(1).tools.len(), 0);
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_result_that_names_the_tools() {
    let model = strict_run([call("meat", json!({})), meet(json!(30))]).await;
    let unknown = &told(&model, 1)[0];
    assert!(unknown.is_error);
    assert!(unknown.to_text().contains("`meat`") && unknown.to_text().contains("meet"));
    assert_eq!(told(&model, 2)[0].to_text(), "30");
}

#[tokio::test]
async fn fifty_megabytes_of_output_are_cut() {
    let model = ScriptedModel::new().turn(call("flood", json!({}))).turn(text("done"));
    let flood = tool_fn("flood", "Says a lot", |_cx, _args: Say| async {
        Ok::<_, ToolError>(format!("start {} end", "x".repeat(50 * 1024 * 1024)))
    });
    let agent = Agent::builder("tester", model.clone()).tool(flood.unwrap()).build().unwrap();
    let result = agent.run("hi").await.unwrap();
    let seen = told(&model, 1)[0].to_text();
    assert!(seen.len() <= TOOL_OUTPUT_BYTES_MAX + 100, "{}", seen.len());
    assert!(seen.starts_with("start") && seen.ends_with("end") && seen.contains("bytes cut"));
    assert_eq!(result.tool_results[0].to_text(), seen, "nobody keeps the rest");
}
