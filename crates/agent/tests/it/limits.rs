//! What happens when a run has used up what it may use.

mod policy;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookError, ModelCallEnd};
use provost_agent::{Agent, AgentBuilder, Error, LimitContext, LimitDecision, OnLimit};
use provost_core::{
    ContentPart, Event, EventKind, LimitKind, Limits, Role, RunSummary, StopReason,
};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, text};
use provost_session::InMemorySessionStore;
use provost_tool::RunContext;
use serde_json::json;

use crate::support::{Say, assert_well_formed, echo, events, roles, stored};

type Asked = Arc<Mutex<Vec<LimitContext>>>;

/// A tool turn, a second one that meets the limit of one round, then these.
fn script(then: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    let model = ScriptedModel::new()
        .turn(call("echo", json!({"text": "one"})))
        .turn(ScriptedTurn::default().text("Once more.").call("echo", json!({"text": "two"})));
    then.into_iter().fold(model, ScriptedModel::turn)
}

/// An agent of one round.
fn limited(model: &ScriptedModel) -> (AgentBuilder, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("tester", model.clone()).tool(echo(&count));
    (agent.limits(Limits::default().turns(1)), count)
}

/// An agent of one round that asks, and always gets the same answer.
fn asking(
    model: &ScriptedModel,
    decision: LimitDecision,
) -> (AgentBuilder, Arc<AtomicUsize>, Asked) {
    let (agent, count) = limited(model);
    let asked: Asked = Arc::default();
    let questions = Arc::clone(&asked);
    let agent = agent.on_limit(OnLimit::callback(move |question| {
        questions.lock().unwrap().push(question);
        std::future::ready(Ok(decision.clone()))
    }));
    (agent, count, asked)
}

fn summary(events: &[Event]) -> &RunSummary {
    match &events.last().unwrap().kind {
        EventKind::Finished { summary } => summary,
        other => panic!("{other:?}"),
    }
}

/// The last message from the user's side that a request shows.
fn last_said(request: &ChatRequest) -> String {
    let said = request.messages.iter().rfind(|message| message.role == Role::User);
    said.unwrap().text()
}

#[tokio::test]
async fn s047_the_program_is_asked_at_the_limit() {
    let model = script([text("done")]);
    let (agent, _, asked) = asking(&model, LimitDecision::Extend { message: None });
    agent.build().unwrap().run("go").await.unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1);
    let wanted: Vec<_> = asked[0].calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(wanted, ["call_2"]);
}

#[tokio::test]
async fn s047_nobody_is_asked_below_the_limit() {
    let model = ScriptedModel::new().turn(call("echo", json!({}))).turn(text("done"));
    let (agent, _, asked) = asking(&model, LimitDecision::Stop);
    assert_eq!(agent.build().unwrap().run("go").await.unwrap().output, "done");
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn s048_an_extended_run_ends_normally() {
    let model = script([text("done")]);
    let (agent, count, asked) = asking(&model, LimitDecision::Extend { message: None });
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("done", StopReason::EndTurn));
    assert_eq!((result.tool_calls, count.load(Ordering::SeqCst)), (2, 2));
    assert_eq!(result.limit, None);
    let question = asked.lock().unwrap()[0].clone();
    assert_eq!((question.reached.limit, question.tool_rounds), (LimitKind::Turns, 1));
    assert_eq!((question.reached.allowed.as_str(), question.reached.used.as_str()), ("1", "1"));
}

#[tokio::test]
async fn s048_an_extension_is_the_same_amount_again_and_may_say_something() {
    let model = script([call("echo", json!({"text": "three"})), text("done")]);
    let message = Some("Hurry up.".to_owned());
    let (agent, count, asked) = asking(&model, LimitDecision::Extend { message });
    agent.build().unwrap().run("go").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
    let rounds: Vec<u32> = asked.lock().unwrap().iter().map(|asked| asked.tool_rounds).collect();
    assert_eq!(rounds, [1, 2], "asked again after one more round");
    let request = model.request(2);
    assert_well_formed(&request.messages);
    let end = &request.messages[request.messages.len() - 2..];
    assert_eq!(roles(end), [Role::Tool, Role::User], "said after the results");
    assert_eq!(last_said(&request), "Hurry up.");
}

#[tokio::test]
async fn s049_a_declined_run_has_a_last_word_without_tools() {
    let model = script([text("As far as I know: one.")]);
    let (agent, count, _) = asking(&model, LimitDecision::FinalAnswer { message: None });
    let store = InMemorySessionStore::new();
    let agent = agent.session_store(store.clone()).build().unwrap();
    let result = agent.run("go").session("s").await.unwrap();
    assert_eq!(result.output, "As far as I know: one.");
    assert_eq!((result.stop, result.turns), (StopReason::Limit, 3));
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Turns);
    assert!(result.pending_calls.is_empty());
    assert_eq!(count.load(Ordering::SeqCst), 1, "the second call did not run");
    let last = model.request(2);
    assert!(last.tools.is_empty());
    assert_well_formed(&last.messages);
    assert!(last.last_tool_result().unwrap().is_error);
    assert!(last_said(&last).contains("limit"));
    assert_well_formed(&stored(&store, "s").await);
    assert_eq!(stored(&store, "s").await.len(), 7);
}

/// There is no decision for a timeout: whoever asks decides what silence means, and declining is one decision.
#[tokio::test(start_paused = true)]
async fn s050_silence_behaves_like_declining() {
    let model = script([text("my best guess")]);
    let (agent, count) = limited(&model);
    let agent = agent.on_limit(OnLimit::callback(|_| async {
        let answer = std::future::pending::<LimitDecision>();
        let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
        Ok(answer.unwrap_or(LimitDecision::FinalAnswer { message: None }))
    }));
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("my best guess", StopReason::Limit));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert!(model.request(2).tools.is_empty());
}

/// The source shows the error to the model as if the program had declined; here the run fails with it.
#[tokio::test]
async fn s050_an_error_of_whoever_is_asked_fails_the_run() {
    let run = || {
        let (agent, _) = limited(&script([]));
        let agent = agent
            .on_limit(OnLimit::callback(|_| async { Err(HookError::new("the desk is closed")) }));
        agent.build().unwrap().run("go")
    };
    let error = run().await.unwrap_err();
    assert!(matches!(&error, Error::Hook { point: "on_limit", .. }), "{error}");
    assert!(error.to_string().contains("the desk is closed"));
    let events = events(run().stream()).await;
    assert!(matches!(&events.last().unwrap().kind, EventKind::Failed { .. }));
}

#[tokio::test]
async fn s051_an_extension_can_discard_the_calls() {
    let model = script([text("done without it")]);
    let decision = LimitDecision::ExtendWithoutCalls {
        result: Some("Not this one.".to_owned()),
        message: Some("Try without.".to_owned()),
    };
    let (agent, count, asked) = asking(&model, decision);
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("done without it", StopReason::EndTurn));
    assert_eq!(asked.lock().unwrap().len(), 1);
    assert_eq!(count.load(Ordering::SeqCst), 1, "the discarded call did not run");
    let request = model.request(2);
    let told = request.last_tool_result().unwrap();
    assert_eq!((told.is_error, told.to_text().as_str()), (true, "Not this one."));
    assert_eq!(last_said(&request), "Try without.");
    assert!(!request.tools.is_empty(), "it may go on with tools");
    assert_well_formed(&request.messages);
}

#[tokio::test]
async fn s052_the_programs_own_words_replace_the_notice() {
    let model = script([text("bye")]);
    let message = Some("Closing time: one sentence, please.".to_owned());
    let (agent, _, _) = asking(&model, LimitDecision::FinalAnswer { message });
    agent.build().unwrap().run("go").await.unwrap();
    let request = model.request(2);
    assert_eq!(last_said(&request), "Closing time: one sentence, please.");
    let from_user = request.messages.iter().filter(|message| message.role == Role::User);
    assert_eq!(from_user.count(), 2, "in place of the usual notice, not with it");
}

/// Notes how many tools each model call offers, and how each ended.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Hook for Watch {
    async fn before_model_call(
        &self,
        _: &RunContext,
        request: &mut ChatRequest,
    ) -> Result<(), HookError> {
        self.0.lock().unwrap().push(format!("{} tools", request.tools.len()));
        Ok(())
    }

    async fn after_model_call(
        &self,
        _: &RunContext,
        end: &mut ModelCallEnd<'_>,
    ) -> Result<(), HookError> {
        if let Ok(response) = end.outcome {
            self.0.lock().unwrap().push(response.message.text());
            for part in &mut response.message.parts {
                if let ContentPart::Text { text } = part {
                    text.push('!');
                }
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn s053_the_last_word_runs_model_hooks() {
    let seen = ["1 tools", "", "1 tools", "Once more.", "0 tools", "bye"];
    for streamed in [false, true] {
        let model = script([text("bye")]);
        let watch = Watch::default();
        let (agent, _, _) = asking(&model, LimitDecision::FinalAnswer { message: None });
        let run = agent.hook(watch.clone()).build().unwrap().run("go");
        let output = if streamed {
            summary(&events(run.stream()).await).text.clone()
        } else {
            run.await.unwrap().output
        };
        assert_eq!(output, "bye!");
        assert_eq!(*watch.0.lock().unwrap(), seen);
    }
}

#[tokio::test]
async fn a_child_cannot_lift_the_depth_limit_of_an_agent_above_it() {
    use provost_tool::{ToolContext, tool_fn};

    let child_model = ScriptedModel::new().turn(text("from the child"));
    let child =
        Agent::builder("child", child_model.clone()).limits(Limits::unlimited()).build().unwrap();
    let ask = move |cx: ToolContext, _args: Say| {
        let child = child.clone();
        async move { Ok(child.run("go").as_child_of(&cx).await?.output) }
    };
    let parent = |depth: Option<u32>| {
        let model = ScriptedModel::new().turn(call("ask", json!({}))).turn(text("done"));
        let ask = tool_fn("ask", "Asks the child", ask.clone()).unwrap();
        let limits = Limits { depth, ..Limits::default() };
        Agent::builder("parent", model).tool(ask).limits(limits).build().unwrap()
    };
    let refused = parent(Some(0)).run("go").await.unwrap();
    assert!(refused.tool_results[0].to_text().contains("depth"), "{refused:?}");
    assert_eq!(child_model.call_count(), 0);
    let allowed = parent(Some(1)).run("go").await.unwrap();
    assert_eq!(allowed.tool_results[0].to_text(), "from the child");
}
