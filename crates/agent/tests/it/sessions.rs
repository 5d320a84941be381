//! What a run leaves in its session, and what the next run makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_agent::{Agent, Error};
use provost_core::{ErrorKind, EventKind, Limits, Message, Role, StopReason, ToolResult};
use provost_model::{ModelErrorClass, ScriptedModel, call, calls, fail, text};
use provost_session::{InMemorySessionStore, Session, SessionError, SessionStore};
use serde_json::json;

use crate::support::{assert_well_formed, echo, events, in_file, roles, stored};

fn agent_on(store: &InMemorySessionStore, model: &ScriptedModel) -> Agent {
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count));
    agent.session_store(store.clone()).build().unwrap()
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.text()).collect()
}

#[tokio::test]
async fn s020_results_follow_their_calls_in_the_session() {
    let store = InMemorySessionStore::new();
    let two = [("echo", json!({"text": "a"})), ("echo", json!({"text": "b"}))];
    let model = ScriptedModel::new().turn(calls(two)).turn(text("done"));
    agent_on(&store, &model).run("go").session("s").await.unwrap();
    let messages = stored(&store, "s").await;
    assert_eq!(roles(&messages), [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    assert_well_formed(&messages);
}

/// The source leaves the calls out of the session, so nothing can go on from there; here they are stored with
/// placeholders for their results, and the conversation is valid as it is.
#[tokio::test]
async fn s021_after_a_limit_stop_no_call_is_unanswered() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::from_fn(|_, _| call("echo", json!({})));
    let agent = agent_on(&store, &model);
    let result = agent.run("go").session("s").max_turns(1).await.unwrap();
    assert_eq!(result.stop, StopReason::Limit);
    let messages = stored(&store, "s").await;
    let expected = [Role::User, Role::Assistant, Role::Tool, Role::Assistant, Role::Tool];
    assert_eq!(roles(&messages), expected);
    assert_well_formed(&messages);
    let results: Vec<_> =
        messages.iter().flat_map(|m| m.tool_results()).map(|r| r.pending).collect();
    assert_eq!(results, [false, true]);
}

#[tokio::test]
async fn s021_a_run_goes_on_after_a_limit_stop() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::from_fn(|_, turn| match turn {
        0..2 => call("echo", json!({})),
        _ => text("done"),
    });
    let agent = agent_on(&store, &model);
    let stopped = agent.run("go").session("s").max_turns(1).await.unwrap();
    let given = stopped.pending_calls.iter().map(|call| ToolResult::text(call, "by hand"));
    let result = agent.submit_tool_results(given).session("s").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("done", StopReason::EndTurn));
    assert_eq!(model.request(2).last_tool_result().unwrap().to_text(), "by hand");
    let messages = stored(&store, "s").await;
    assert_eq!(messages.len(), 6, "the placeholder was replaced, not followed");
    assert_well_formed(&messages);
    assert!(messages.iter().flat_map(|m| m.tool_results()).all(|result| !result.pending));
}

#[tokio::test]
async fn s022_a_second_run_after_a_tool_turn_works() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new()
        .turn(call("echo", json!({"text": "one"})))
        .turn(text("first"))
        .turn(call("echo", json!({"text": "two"})))
        .turn(text("second"));
    let agent = agent_on(&store, &model);
    agent.run("one").session("s").await.unwrap();
    let result = agent.run("two").session("s").await.unwrap();
    assert_eq!(result.output, "second");
    assert_eq!(result.messages.len(), 4, "what this run added, not what was there");
    for request in model.requests().iter().skip(1) {
        assert_well_formed(&request.messages);
    }
    assert_eq!(model.request(2).messages.len(), 5);
    let messages = stored(&store, "s").await;
    assert_eq!(messages.len(), 8);
    assert_well_formed(&messages);
}

#[tokio::test]
async fn s023_every_request_has_the_instructions_once() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(text("a")).turn(text("b"));
    let agent = Agent::builder("tester", model.clone()).instructions("Be brief.");
    let agent = agent.session_store(store.clone()).build().unwrap();
    agent.run("one").session("s").await.unwrap();
    agent.run("two").session("s").await.unwrap();
    for request in model.requests() {
        assert_eq!(request.system.as_deref(), Some("Be brief."));
        assert!(!roles(&request.messages).contains(&Role::System));
    }
    assert!(!roles(&stored(&store, "s").await).contains(&Role::System));
}

#[tokio::test]
async fn s024_another_agent_on_the_session_brings_its_own_instructions() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(text("a")).turn(text("b"));
    for instructions in ["You are a pirate.", "You are a poet."] {
        let agent = Agent::builder("tester", model.clone()).instructions(instructions);
        let agent = agent.session_store(store.clone()).build().unwrap();
        agent.run("hello").session("s").await.unwrap();
    }
    let second = model.request(1);
    assert_eq!(second.system.as_deref(), Some("You are a poet."));
    assert_eq!(texts(&second.messages), ["hello", "a", "hello"]);
}

/// The source keeps the user's message of a failed run, so trying again says it twice.
#[tokio::test]
async fn a_failing_model_call_leaves_the_session_untouched() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new()
        .turn(text("one"))
        .turn(fail(ModelErrorClass::Overloaded, "come back later"))
        .turn(fail(ModelErrorClass::Overloaded, "come back later"))
        .turn(text("two"));
    let agent = agent_on(&store, &model);
    agent.run("first").session("s").await.unwrap();
    let before = store.load("s").await.unwrap().unwrap();
    let error = agent.run("second").session("s").await.unwrap_err();
    assert!(matches!(&error, Error::Model(error) if error.class == ModelErrorClass::Overloaded));
    let failed = events(agent.run("second").session("s").stream()).await;
    assert!(matches!(&failed.last().unwrap().kind, EventKind::Failed { .. }));
    assert_eq!(store.load("s").await.unwrap().unwrap(), before);
    agent.run("second").session("s").await.unwrap();
    assert_eq!(texts(&stored(&store, "s").await), ["first", "one", "second", "two"]);
    assert_eq!(texts(&model.request(3).messages), ["first", "one", "second"]);
}

#[tokio::test]
async fn a_failure_after_a_tool_turn_keeps_what_was_done() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new()
        .turn(call("echo", json!({})))
        .turn(fail(ModelErrorClass::Transport, "cut off"))
        .turn(text("done"));
    let agent = agent_on(&store, &model);
    agent.run("go").session("s").await.unwrap_err();
    let messages = stored(&store, "s").await;
    assert_eq!(roles(&messages), [Role::User, Role::Assistant, Role::Tool]);
    assert_well_formed(&messages);
    agent.run("go on").session("s").await.unwrap();
    assert_well_formed(&stored(&store, "s").await);
}

#[tokio::test(start_paused = true)]
async fn of_two_runs_at_once_the_second_commit_is_a_conflict() {
    let store = InMemorySessionStore::new();
    let run = |word: &str, seconds| {
        let answer = text(format!("answer to {word}")).delay(Duration::from_secs(seconds));
        let agent = agent_on(&store, &ScriptedModel::new().turn(answer));
        agent.run(word).session("s")
    };
    let (quick, slow) = tokio::join!(run("quick", 1).into_future(), run("slow", 2).into_future());
    assert_eq!(quick.unwrap().output, "answer to quick");
    let error = slow.unwrap_err();
    assert!(matches!(error, Error::Session(SessionError::Conflict { .. })), "{error}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(texts(&stored(&store, "s").await), ["quick", "answer to quick"]);
    let (quick, slow) = tokio::join!(events(run("q2", 1).stream()), events(run("s2", 2).stream()));
    assert!(matches!(&quick.last().unwrap().kind, EventKind::Finished { .. }));
    match &slow.last().unwrap().kind {
        EventKind::Failed { error } => {
            assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Conflict, "session"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stored(&store, "s").await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_overtaken_between_its_turns_leaves_a_valid_session() {
    let store = InMemorySessionStore::new();
    let long = ScriptedModel::new()
        .turn(call("echo", json!({})).delay(Duration::from_secs(1)))
        .turn(text("late").delay(Duration::from_secs(3)));
    let long = agent_on(&store, &long).run("long").session("s").into_future();
    let short = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let model = ScriptedModel::new().turn(text("quick"));
        agent_on(&store, &model).run("short").session("s").await
    };
    let (long, short) = tokio::join!(long, short);
    assert_eq!(short.unwrap().output, "quick");
    assert_eq!(long.unwrap_err().kind(), ErrorKind::Conflict);
    let messages = stored(&store, "s").await;
    let expected = [Role::User, Role::Assistant, Role::Tool, Role::User, Role::Assistant];
    assert_eq!(roles(&messages), expected);
    assert_well_formed(&messages);
}

#[tokio::test]
async fn peek_writes_nothing_and_build_context_commits_the_message() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(text("one"));
    let agent = Agent::builder("tester", model.clone()).instructions("You help {{ who }}.");
    let agent = agent.state("who", "Ada").session_store(store.clone()).build().unwrap();
    agent.run("first").session("s").await.unwrap();
    let before = store.load("s").await.unwrap().unwrap();
    let peeked = agent.run("second").session("s").preview().await.unwrap();
    assert_eq!(peeked.system.as_deref(), Some("You help Ada."));
    assert_eq!(texts(&peeked.messages), ["first", "one", "second"]);
    assert_eq!(store.load("s").await.unwrap().unwrap(), before);
    let built = agent.run("second").session("s").build_context().await.unwrap();
    assert_eq!(texts(&built.messages), texts(&peeked.messages));
    assert_eq!(texts(&stored(&store, "s").await), ["first", "one", "second"]);
    assert_eq!(model.call_count(), 1, "neither asks the model");
    let fresh = agent.run("hello").session("new").preview().await.unwrap();
    assert_eq!(texts(&fresh.messages), ["hello"]);
    assert!(store.load("new").await.unwrap().is_none(), "not even an empty session");
}

#[tokio::test]
async fn two_agents_share_a_session_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new()
        .turn(call("echo", json!({"text": "Ada"})))
        .turn(text("I know Ada."))
        .turn(text("Ada, you said."));
    let count = Arc::new(AtomicUsize::new(0));
    let first = Agent::builder("first", model.clone()).tool(echo(&count));
    let first = first.session_store(in_file(dir.path())).build().unwrap();
    first.run("I am Ada").session("talk/1").await.unwrap();
    // Another store on the same file, as another process would have it.
    let file = in_file(dir.path());
    let second =
        Agent::builder("second", model.clone()).session_store(file.clone()).build().unwrap();
    let result = second.run("Who am I?").session("talk/1").await.unwrap();
    assert_eq!(result.output, "Ada, you said.");
    let request = model.request(2);
    assert_eq!(request.messages.len(), 5);
    assert_well_formed(&request.messages);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let messages = stored(&file, "talk/1").await;
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[2].tool_results().next().unwrap().to_text(), "echo: Ada");
}

#[tokio::test]
async fn a_session_needs_a_store_and_a_run_can_bring_its_own() {
    let model = ScriptedModel::new().turn(text("hi"));
    let agent = Agent::builder("tester", model.clone()).build().unwrap();
    let error = agent.run("hello").session("s").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(".session_store(..)"), "{error}");
    assert_eq!(model.call_count(), 0);
    let store = InMemorySessionStore::new();
    agent.run("hello").session_in(Arc::new(store.clone()), "s").await.unwrap();
    assert_eq!(texts(&stored(&store, "s").await), ["hello", "hi"]);
}

#[tokio::test]
async fn a_broken_session_is_repaired_before_the_model_sees_it() {
    let store = InMemorySessionStore::new();
    let session = Session::new(Arc::new(store.clone()), "s");
    let lost = provost_core::ToolCall::new("lost", "echo", &json!({}));
    let orphan = provost_core::ToolCall::new("orphan", "echo", &json!({}));
    let broken = [
        Message::user("one"),
        Message::calls([lost]),
        Message::user("two"),
        Message::results([ToolResult::text(&orphan, "whose?")]),
    ];
    session.add(broken).await.unwrap();
    let model = ScriptedModel::new().turn(text("done"));
    let events = events(agent_on(&store, &model).run("three").session("s").stream()).await;
    let sent = model.request(0).messages;
    assert_well_formed(&sent);
    assert_eq!(texts(&sent), ["one", "", "", "two", "three"]);
    assert!(sent[2].tool_results().next().unwrap().is_error);
    assert!(events.iter().any(|event| matches!(event.kind, EventKind::Warning { .. })));
}

#[tokio::test]
async fn a_token_limit_leaves_a_session_that_goes_on() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new()
        .turn(call("echo", json!({})).usage(provost_core::Usage::new(90, 20)))
        .turn(text("done"));
    let agent = agent_on(&store, &model);
    let limits = Limits::default().total_tokens(100);
    let result = agent.run("go").session("s").limits(limits).await.unwrap();
    assert_eq!((result.stop, result.pending_calls.len()), (StopReason::Limit, 0));
    assert_well_formed(&stored(&store, "s").await);
    assert_eq!(agent.run("go on").session("s").await.unwrap().output, "done");
    assert_well_formed(&stored(&store, "s").await);
}
