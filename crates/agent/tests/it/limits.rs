//! What happens when a run has used up what it may use.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use provost_agent::hook::{Hook, HookCx, HookError, ModelEnd};
use provost_agent::session::MemorySessions;
use provost_agent::{
    Agent, AgentBuilder, AtLimit, BuildError, Error, LimitDecision, LimitQuestion,
};
use provost_core::{
    Env, Event, EventKind, LimitKind, Limits, Money, Part, Pricing, Role, RunSummary, StopReason,
    Usage,
};
use provost_model::{ChatRequest, ScriptedModel, Turn, call, calls, text};
use serde_json::json;

use crate::support::{assert_well_formed, echo, events, names, roles, stored};

type Asked = Arc<Mutex<Vec<LimitQuestion>>>;

/// A tool turn, a second one that meets the limit of one round, then these.
fn script(then: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    let model = ScriptedModel::new()
        .turn(call("echo", json!({"text": "one"})))
        .turn(Turn::default().text("Once more.").call("echo", json!({"text": "two"})));
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
    let agent = agent.ask_at_limit(move |question| {
        questions.lock().unwrap().push(question);
        std::future::ready(Ok(decision.clone()))
    });
    (agent, count, asked)
}

/// The limits a stream told of.
fn told(events: &[Event]) -> Vec<LimitKind> {
    let kind = |event: &Event| match &event.kind {
        EventKind::LimitReached(reached) => Some(reached.limit),
        _ => None,
    };
    events.iter().filter_map(kind).collect()
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
    assert_eq!((question.reached.limit, question.rounds), (LimitKind::Turns, 1));
    assert_eq!((question.reached.allowed.as_str(), question.reached.used.as_str()), ("1", "1"));
}

#[tokio::test]
async fn s048_an_extension_is_the_same_amount_again_and_may_say_something() {
    let model = script([call("echo", json!({"text": "three"})), text("done")]);
    let message = Some("Hurry up.".to_owned());
    let (agent, count, asked) = asking(&model, LimitDecision::Extend { message });
    agent.build().unwrap().run("go").await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
    let rounds: Vec<u32> = asked.lock().unwrap().iter().map(|asked| asked.rounds).collect();
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
    let store = MemorySessions::new();
    let agent = agent.sessions(store.clone()).build().unwrap();
    let result = agent.run("go").session_id("s").await.unwrap();
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
    let agent = agent.ask_at_limit(|_| async {
        let answer = std::future::pending::<LimitDecision>();
        let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
        Ok(answer.unwrap_or(LimitDecision::FinalAnswer { message: None }))
    });
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
        let agent = agent.ask_at_limit(|_| async { Err(HookError::new("the desk is closed")) });
        agent.build().unwrap().run("go")
    };
    let error = run().await.unwrap_err();
    assert!(matches!(&error, Error::Hook { point: "ask_at_limit", .. }), "{error}");
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
    async fn pre_model_call(&self, _: &HookCx, request: &mut ChatRequest) -> Result<(), HookError> {
        self.0.lock().unwrap().push(format!("{} tools", request.tools.len()));
        Ok(())
    }

    async fn post_model_call(&self, _: &HookCx, end: &mut ModelEnd<'_>) -> Result<(), HookError> {
        if let Ok(response) = end.outcome {
            self.0.lock().unwrap().push(response.message.text());
            for part in &mut response.message.parts {
                if let Part::Text { text } = part {
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
async fn a_question_in_a_stream_comes_after_the_event_that_tells_of_the_limit() {
    let model = script([text("done")]);
    let (agent, _, _) = asking(&model, LimitDecision::Extend { message: None });
    let events = events(agent.build().unwrap().run("go").stream()).await;
    assert_eq!(told(&events), [LimitKind::Turns]);
    let names = names(&events);
    let place = names.iter().position(|name| name == "limit_reached").unwrap();
    assert_eq!(names[place - 1..=place + 1], ["turn_finished", "limit_reached", "tool_started"]);
    assert_eq!(summary(&events).stop, StopReason::EndTurn);
}

#[tokio::test]
async fn a_stream_tells_of_a_limit_once_and_again_after_an_extension() {
    let again = || call("echo", json!({"text": "three"}));
    let table = [
        (LimitDecision::Stop, 1),
        (LimitDecision::FinalAnswer { message: None }, 1),
        (LimitDecision::Extend { message: None }, 2),
    ];
    for (decision, times) in table {
        let model = script([again(), text("done")]);
        let (agent, _, _) = asking(&model, decision);
        let events = events(agent.build().unwrap().run("go").stream()).await;
        assert_eq!(told(&events), vec![LimitKind::Turns; times]);
    }
}

#[tokio::test]
async fn what_is_said_while_the_program_is_asked_waits_for_the_results() {
    let decisions = [
        LimitDecision::Extend { message: None },
        LimitDecision::ExtendWithoutCalls { result: None, message: None },
        LimitDecision::FinalAnswer { message: None },
    ];
    for decision in decisions {
        let model = script([text("done")]);
        let (agent, _, _) = asking(&model, decision);
        let mut stream = agent.build().unwrap().run("go").stream();
        let handle = stream.handle();
        while let Some(event) = stream.next().await {
            if matches!(event.kind, EventKind::TurnFinished { turn: 2, .. }) {
                handle.steer("By the way").unwrap();
            }
        }
        let request = model.request(2);
        assert_well_formed(&request.messages);
        assert!(request.messages.iter().any(|message| message.text() == "By the way"));
    }
}

#[tokio::test]
async fn a_last_word_is_a_policy_of_its_own() {
    for streamed in [false, true] {
        let model = script([text("bye")]);
        let (agent, count) = limited(&model);
        let run = agent.at_limit(AtLimit::FinalAnswer).build().unwrap().run("go");
        let summary = if streamed {
            let events = events(run.stream()).await;
            assert_eq!(told(&events), [LimitKind::Turns]);
            summary(&events).clone()
        } else {
            run.await.unwrap().summary
        };
        assert_eq!((summary.text.as_str(), summary.stop), ("bye", StopReason::Limit));
        assert_eq!((summary.turns, count.load(Ordering::SeqCst)), (3, 1));
        assert!(model.request(2).tools.is_empty());
    }
}

#[tokio::test]
async fn calls_in_a_last_word_are_dropped() {
    let model = script([Turn::default().text("One more?").call("echo", json!({}))]);
    let (agent, count) = limited(&model);
    let result = agent.at_limit(AtLimit::FinalAnswer).build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("One more?", StopReason::Limit));
    assert!(result.pending_calls.is_empty());
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert_well_formed(&result.messages);
}

#[tokio::test]
async fn stopping_is_a_decision_too() {
    let model = script([]);
    let (agent, count, _) = asking(&model, LimitDecision::Stop);
    let result = agent.build().unwrap().run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.stop), ("Once more.", StopReason::Limit));
    assert_eq!((result.pending_calls.len(), count.load(Ordering::SeqCst)), (1, 1));
}

#[test]
fn asking_needs_somebody_to_ask() {
    let agent = Agent::builder("tester", ScriptedModel::new()).at_limit(AtLimit::Ask).build();
    assert!(matches!(&agent, Err(BuildError::Setting(text)) if text.contains("ask_at_limit")));
}

#[tokio::test]
async fn a_stream_tells_of_every_limit_that_stops_it() {
    let events_of = async |limits: Limits| {
        let usage = Usage::new(90, 20);
        let model = ScriptedModel::answering(move |_, _| call("echo", json!({})).usage(usage));
        let (agent, _) = limited(&model);
        events(agent.limits(limits).build().unwrap().run("go").stream()).await
    };
    let table = [
        (Limits::default().turns(2), LimitKind::Turns),
        (Limits::default().tool_calls(3), LimitKind::ToolCalls),
        (Limits::default().total_tokens(300), LimitKind::TotalTokens),
    ];
    for (limits, kind) in table {
        let events = events_of(limits).await;
        assert_eq!(told(&events), [kind]);
        assert_eq!(summary(&events).limit.as_ref().unwrap().limit, kind);
        assert_eq!(summary(&events).stop, StopReason::Limit);
    }
}

#[tokio::test]
async fn a_limit_of_tool_calls_counts_the_whole_turn() {
    let three = || calls([("echo", json!({})), ("echo", json!({})), ("echo", json!({}))]);
    for at_limit in [AtLimit::Stop, AtLimit::FinalAnswer] {
        let model = ScriptedModel::new().turn(three()).turn(text("bye"));
        let (agent, count) = limited(&model);
        let agent = agent.limits(Limits::default().tool_calls(2)).at_limit(at_limit);
        let result = agent.build().unwrap().run("go").await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 0, "all of a turn or nothing of it");
        assert_eq!(result.stop, StopReason::Limit);
        let reached = result.limit.as_ref().unwrap();
        assert_eq!((reached.limit, reached.allowed.as_str()), (LimitKind::ToolCalls, "2"));
    }
}

#[tokio::test(start_paused = true)]
async fn time_ends_a_model_call_and_a_tool_that_hang() {
    let wall = Limits::default().wall(Duration::from_secs(5));
    let model = ScriptedModel::new().turn(text("so far").hang());
    let agent = Agent::builder("tester", model).limits(wall.clone()).build().unwrap();
    let started = tokio::time::Instant::now();
    let result = agent.run("go").await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!((result.output.as_str(), result.stop), ("so far", StopReason::Limit));
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Wall);
    assert!(result.messages.last().unwrap().interrupted);

    let hang = provost_tool::tool_fn("hang", "Never ends", |_cx, _args: crate::support::Say| {
        std::future::pending::<Result<String, provost_tool::ToolError>>()
    });
    let model = ScriptedModel::new().turn(call("hang", json!({})));
    let agent = Agent::builder("tester", model).tool(hang.unwrap()).limits(wall).build().unwrap();
    let result = agent.run("go").await.unwrap();
    assert_eq!(result.limit.as_ref().unwrap().limit, LimitKind::Wall);
    assert!(result.tool_results[0].is_error);
    assert_well_formed(&result.messages);
}

#[tokio::test]
async fn money_needs_a_price_in_the_same_currency() {
    let cents = |amount: &str| Money::usd(amount.parse().unwrap());
    let priced = |currency| Pricing {
        input: "10".parse().unwrap(),
        output: "10".parse().unwrap(),
        cache_read: None,
        cache_write: None,
        currency,
    };
    let run = async |pricing: Option<Pricing>| {
        let model =
            ScriptedModel::answering(|_, _| call("echo", json!({})).usage(Usage::new(100_000, 0)));
        let model = model.with_info(|info| info.pricing = pricing);
        let (agent, _) = limited(&model);
        let limits = Limits::unlimited().cost(cents("2.5"));
        let result = agent.limits(limits).env(Env::simulated(1)).build().unwrap().run("go").await;
        (result, model.call_count())
    };
    let (result, asked) = run(Some(priced(provost_core::Currency::USD))).await;
    let result = result.unwrap();
    assert_eq!((asked, result.cost), (3, Some(cents("3"))), "stops once it is exceeded");
    assert_eq!(result.limit.as_ref().unwrap().allowed, "$2.5");
    for pricing in [None, Some(priced(provost_core::Currency::EUR))] {
        let (result, asked) = run(pricing).await;
        assert!(matches!(result, Err(Error::Start(_))), "{result:?}");
        assert_eq!(asked, 0, "refused, not counted wrongly");
    }
}
