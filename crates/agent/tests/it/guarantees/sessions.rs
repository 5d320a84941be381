//! What a session has after something went wrong, and how it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use provost_agent::context::{ContextConfig, Summarize, since_last_summary};
use provost_agent::hook::{Hook, HookError};
use provost_agent::{Agent, AgentBuilder, Error};
use provost_core::{Message, Role, RunSummary};
use provost_model::{
    ChatRequest, ModelErrorClass, ScriptedModel, StructuredOutputSupport, call, fail, text,
};
use provost_session::{InMemorySessionStore, Session};
use provost_tool::RunContext;
use serde_json::json;

use crate::support::{assert_well_formed, echo, ended, roles, stored};

const ONE_TURN: [Role; 3] = [Role::User, Role::Assistant, Role::Tool];

fn with_echo(
    model: &ScriptedModel,
    store: &InMemorySessionStore,
) -> (AgentBuilder, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count));
    (agent.session_store(store.clone()), count)
}

#[tokio::test]
async fn a_run_that_failed_later_goes_on_where_it_stopped() {
    for streaming in [false, true] {
        let store = InMemorySessionStore::new();
        let model = ScriptedModel::new()
            .turn(call("echo", json!({ "text": "a" })))
            .turn(fail(ModelErrorClass::Overloaded, "busy"))
            .turn(text("done"));
        let (agent, count) = with_echo(&model, &store);
        let agent = agent.build().unwrap();
        ended(agent.run("pay the bill").session("s"), streaming).await.unwrap_err();
        assert_eq!(roles(&stored(&store, "s").await), ONE_TURN, "the turn that ended well is kept");

        let summary = ended(agent.continue_conversation().session("s"), streaming).await.unwrap();
        assert_eq!((summary.text.as_str(), summary.turns), ("done", 1));
        assert_eq!(count.load(Ordering::SeqCst), 1, "nothing is done twice");
        let messages = stored(&store, "s").await;
        assert_eq!(roles(&messages), [&ONE_TURN[..], &[Role::Assistant]].concat());
        assert_eq!(messages[0].text(), "pay the bill");
        assert_eq!(model.request(2).messages, model.request(1).messages);
    }
}

#[tokio::test]
async fn a_run_that_failed_at_once_leaves_nothing_to_go_on_with() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(fail(ModelErrorClass::Overloaded, "busy"));
    let agent = with_echo(&model, &store).0.build().unwrap();
    agent.run("pay the bill").session("s").await.unwrap_err();
    assert!(stored(&store, "s").await.is_empty(), "so the message can simply be sent again");
    let error = agent.continue_conversation().session("s").await.unwrap_err();
    assert!(error.to_string().contains("send a message"), "{error}");
}

#[tokio::test]
async fn a_conversation_that_waits_for_the_user_does_not_go_on_without_one() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(text("done"));
    let agent = with_echo(&model, &store).0.build().unwrap();
    agent.run("hi").session("s").await.unwrap();
    for streaming in [false, true] {
        let error = ended(agent.continue_conversation().session("s"), streaming).await.unwrap_err();
        assert!(error.message.contains("send a message"), "{error}");
    }
    assert_eq!((model.call_count(), stored(&store, "s").await.len()), (1, 2));
}

#[tokio::test]
async fn calls_that_are_owed_to_the_caller_are_not_gone_past() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(call("echo", json!({})));
    let agent = with_echo(&model, &store).0.external_tools().build().unwrap();
    agent.run("hi").session("s").await.unwrap();
    let before = stored(&store, "s").await;
    let error = agent.continue_conversation().session("s").await.unwrap_err();
    assert!(matches!(error, Error::Continue(_)), "{error}");
    assert_eq!(stored(&store, "s").await, before);
}

#[tokio::test]
async fn going_on_needs_a_conversation() {
    let model = ScriptedModel::new().turn(text("done"));
    let agent = Agent::builder("tester", model.clone()).build().unwrap();
    assert!(matches!(agent.continue_conversation().await.unwrap_err(), Error::Start(_)));
    let history = [Arc::new(Message::user("hi"))];
    assert_eq!(agent.continue_conversation().history(history).await.unwrap().output, "done");
    assert_eq!(model.request(0).messages.len(), 1);
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Number {
    #[expect(dead_code, reason = "only its type matters")]
    x: u8,
}

#[tokio::test]
async fn an_answer_that_never_has_the_type_leaves_no_trace() {
    for native in [StructuredOutputSupport::WithTools, StructuredOutputSupport::None] {
        for (retries, answers) in [(0, 1), (2, 3)] {
            let store = InMemorySessionStore::new();
            let wrong = || match native {
                StructuredOutputSupport::None => call("final_answer", json!({ "x": "no number" })),
                _ => text("no number"),
            };
            let model = (0..answers).fold(ScriptedModel::new(), |model, _| model.turn(wrong()));
            let model = model.with_info(|info| info.native_output = native);
            let (agent, _) = with_echo(&model, &store);
            let agent = agent.output::<Number>().output_retries(retries).build().unwrap();
            let error = agent.run("hi").session("s").await.unwrap_err();
            assert!(matches!(error, Error::Output { .. }), "{error}");
            model.assert_exhausted();
            assert!(stored(&store, "s").await.is_empty());
        }
    }
}

#[tokio::test]
async fn turns_before_an_answer_of_the_wrong_type_are_kept() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new()
        .turn(call("echo", json!({})))
        .turn(text("no number"))
        .turn(text("still none"))
        .turn(text(r#"{"x": 1}"#));
    let agent = with_echo(&model, &store).0.output::<Number>().output_retries(1).build().unwrap();
    agent.run("hi").session("s").await.unwrap_err();
    assert_eq!(roles(&stored(&store, "s").await), ONE_TURN);
    agent.continue_conversation().session("s").await.unwrap();
    assert_eq!(model.request(3).messages.len(), 3);
}

/// Refuses every answer.
struct Refuse;

#[async_trait]
impl Hook for Refuse {
    async fn after_agent(
        &self,
        _cx: &RunContext,
        _summary: &mut RunSummary,
    ) -> Result<(), HookError> {
        Err(HookError::new("not like this"))
    }
}

#[tokio::test]
async fn an_answer_that_a_hook_refuses_leaves_no_trace() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new()
        .turn(text("secret"))
        .turn(call("echo", json!({})))
        .turn(text("secret"));
    let agent = with_echo(&model, &store).0.hook(Refuse).build().unwrap();
    agent.run("hi").session("s").await.unwrap_err();
    assert!(stored(&store, "s").await.is_empty());
    agent.run("hi").session("s").await.unwrap_err();
    assert_eq!(roles(&stored(&store, "s").await), ONE_TURN, "only the final turn is gone");
}

/// Adds messages of its own to the first request.
struct Inject(AtomicUsize);

#[async_trait]
impl Hook for Inject {
    async fn before_model_call(
        &self,
        _: &RunContext,
        request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            let added = (0..3).map(|number| Arc::new(Message::user(format!("injected {number}"))));
            request.messages.extend(added);
        }
        Ok(())
    }
}

#[tokio::test]
async fn messages_that_a_hook_adds_do_not_cost_stored_ones_their_place() {
    for keep_recent in [1, 3, 5, 7] {
        let store = InMemorySessionStore::new();
        let before = ["m1", "m2", "m3", "m4"];
        let session = Session::new(Arc::new(store.clone()), "s");
        session.add(before.map(Message::user)).await.unwrap();
        let model = ScriptedModel::new()
            .turn(call("echo", json!({ "text": "x ".repeat(3_000) })))
            .turn(text("done"));
        let writer = ScriptedModel::from_fn(|_, _| text("notes"));
        let (agent, _) = with_echo(&model, &store);
        let agent = agent
            .hook(Inject(AtomicUsize::new(0)))
            .context(
                ContextConfig::new(
                    Summarize::new(Arc::new(writer.clone())).keep_recent(keep_recent),
                )
                .max_tokens(1_500),
            )
            .build()
            .unwrap();
        agent.run("the question").session("s").await.unwrap();
        assert!(writer.call_count() > 0, "{keep_recent}: it was summarized");

        let messages = stored(&store, "s").await;
        let texts: Vec<String> = messages.iter().map(|message| message.text()).collect();
        assert_eq!(texts[..4], before, "{keep_recent}: what was stored stays");
        assert!(texts.contains(&"the question".to_owned()), "{keep_recent}: {texts:?}");
        assert_eq!(texts.last().unwrap(), "done");
        assert_well_formed(since_last_summary(&messages));

        // What is read back is what the run itself had gone on with, and its answer.
        let gone_on_with = &model.request(1).messages;
        assert_eq!(
            since_last_summary(&messages)[..gone_on_with.len()],
            gone_on_with[..],
            "{keep_recent}"
        );
        assert_eq!(since_last_summary(&messages).len(), gone_on_with.len() + 1);
    }
}
