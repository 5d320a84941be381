//! Every model call is made to fit, and what happens where that is hard.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::context::{
    self, CompactionInput, CompactionResult, ContextConfig, ContextError, HeuristicCounter,
    SlidingWindow, Summarize, Truncate, count_request,
};
use provost_agent::hook::{Hook, HookError, ModelCallEnd};
use provost_agent::{Agent, Error};
use provost_core::{Compaction, ErrorKind, Event, EventKind, Message, Role, Usage};
use provost_model::{
    ChatRequest, ModelErrorClass, ScriptedModel, ScriptedTurn, call, calls, fail, text,
};
use provost_session::{InMemorySessionStore, SessionStore};
use provost_tool::{FnTool, RunContext, ToolError, tool_fn};
use serde_json::json;

use super::{BUDGET, by, compacted, long_answer, long_question, summarizing};
use crate::support::{Say, assert_well_formed, events, final_text, stored};

fn compactions(events: &[Event]) -> Vec<&Compaction> {
    let compaction = |event| match event {
        &Event { kind: EventKind::Compacted(ref compaction), .. } => Some(&**compaction),
        _ => None,
    };
    events.iter().filter_map(compaction).collect()
}

fn size(request: &ChatRequest) -> u64 {
    count_request(&HeuristicCounter, request.system.as_deref(), &request.messages, &request.tools)
        .total()
}

/// A tool whose results are about a hundred tokens.
fn wordy() -> FnTool {
    tool_fn("wordy", "Talks a lot", |_cx, args: Say| async move {
        Ok::<_, ToolError>(format!("{} {}", args.text, "words ".repeat(70)))
    })
    .unwrap()
}

/// So many turns of the wordy tool, then an answer.
fn talkative(turns: usize) -> ScriptedModel {
    ScriptedModel::from_fn(move |_, index| match index {
        _ if index < turns => call("wordy", json!({"text": format!("result {index}")})),
        _ => text("done"),
    })
}

/// Keeps what it is told about compactions.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl Hook for Notes {
    async fn on_compaction(&self, _cx: &RunContext, compaction: &Compaction) {
        self.0.lock().unwrap().push(compaction.strategy.clone());
    }

    async fn after_model_call(
        &self,
        _cx: &RunContext,
        end: &mut ModelCallEnd<'_>,
    ) -> Result<(), HookError> {
        if let Err(error) = end.outcome {
            self.0.lock().unwrap().push(error.class.as_str().to_owned());
        }
        Ok(())
    }
}

/// The source fits the conversation once, when the run starts, and lets it grow without bounds then.
#[tokio::test]
async fn every_model_call_of_a_run_is_made_to_fit() {
    for streamed in [false, true] {
        let (model, notes) = (talkative(8), Notes::default());
        let agent = Agent::builder("tester", model.clone())
            .tool(wordy())
            .context(ContextConfig::new(Truncate::new()).max_tokens(500));
        let agent = agent.hook(notes.clone()).build().unwrap();
        if streamed {
            let events = events(agent.run("go").stream()).await;
            assert_eq!(final_text(&events), "done");
            let told = compactions(&events);
            assert_eq!(told.len(), notes.0.lock().unwrap().len());
            for compaction in told {
                assert_eq!(compaction.strategy, "truncate");
                assert!(compaction.tokens_before > 500 && compaction.tokens_after <= 500);
                assert!(compaction.messages_after < compaction.messages_before);
            }
        } else {
            assert_eq!(agent.run("go").await.unwrap().output, "done");
        }
        let kept = notes.0.lock().unwrap().len();
        assert!((2..8).contains(&kept), "more than once, less than each time: {kept}");
        for request in model.requests() {
            assert!(size(&request) <= 500);
            assert_well_formed(&request.messages);
            assert_eq!(request.messages[0].text(), "go", "the newest user message stays");
        }
    }
}

#[tokio::test]
async fn a_session_stays_whole_when_a_run_is_compacted_on_its_way() {
    let store = InMemorySessionStore::new();
    let writer = ScriptedModel::from_fn(|_, index| text(format!("summary {index}")));
    let model = talkative(9);
    let strategy = Summarize::new(Arc::new(writer.clone())).keep_recent(2);
    let agent = Agent::builder("tester", model.clone())
        .tool(wordy())
        .context(ContextConfig::new(strategy).max_tokens(500));
    let agent = agent.session_store(store.clone()).build().unwrap();
    agent.run("go").session("s").await.unwrap();
    assert!(writer.call_count() >= 2);
    let messages = stored(&store, "s").await;
    let active = context::since_last_summary(&messages).to_vec();
    assert_eq!(active[0].text(), format!("summary {}", writer.call_count() - 1));
    assert_eq!(active[1].text(), "go", "the question is kept word for word");
    assert_well_formed(&active);
    let all = messages.iter().flat_map(|message| message.tool_results());
    let numbers: Vec<String> = all.map(|result| result.to_text()[..8].to_owned()).collect();
    let expected: Vec<String> = (0..9).map(|index| format!("result {index}")).collect();
    let mut known = numbers.clone();
    known.dedup();
    assert_eq!(known, expected, "every result is in the record, and in order");
    let next = events(agent.run("and now?").session("s").stream()).await;
    assert_eq!(final_text(&next), "done");
    assert!(!next.iter().any(|event| matches!(event.kind, EventKind::Warning { .. })));
}

#[tokio::test]
async fn the_budget_is_the_models_window_less_the_reserve() {
    let ask = async |reserve: Option<u64>| {
        let (strategy, asked) =
            by(|input: CompactionInput<'_>| CompactionResult::messages(input.messages));
        let model = ScriptedModel::new().turn(text("hi"));
        let model = model.with_info(|info| info.context_window = Some(4200));
        let mut context = ContextConfig::new(strategy);
        if let Some(tokens) = reserve {
            context = context.reserve(tokens);
        }
        let agent = Agent::builder("tester", model).context(context);
        agent.build().unwrap().run("word ".repeat(150)).await.unwrap();
        asked.load(Ordering::SeqCst)
    };
    assert_eq!(ask(None).await, 1, "4200 less 4096 is less than 150 words");
    assert_eq!(ask(Some(100)).await, 0);
}

/// A long history, as a program would keep it.
fn history() -> Vec<Arc<Message>> {
    let pair = |index: usize| {
        let question = format!("question {index} {}", "word ".repeat(40));
        [Message::user(question), Message::assistant(format!("answer {index}"))]
    };
    (0..6).flat_map(pair).map(Arc::new).collect()
}

fn too_long() -> ScriptedTurn {
    fail(ModelErrorClass::ContextLength, "too many tokens")
}

#[tokio::test]
async fn a_conversation_the_provider_refuses_is_compacted_and_tried_once_more() {
    for streamed in [false, true] {
        let model = ScriptedModel::new().turn(too_long()).turn(text("now it fits"));
        let agent = Agent::builder("tester", model.clone())
            .context(ContextConfig::new(Truncate::new()).max_tokens(100_000));
        let agent = agent.build().unwrap();
        let run = agent.run("go").history(history());
        if streamed {
            let events = events(run.stream()).await;
            assert_eq!(final_text(&events), "now it fits");
            assert_eq!(compactions(&events).len(), 1);
        } else {
            assert_eq!(run.await.unwrap().output, "now it fits");
        }
        assert_eq!(model.call_count(), 2);
        assert!(size(&model.request(1)) < size(&model.request(0)) * 3 / 4);
        assert_well_formed(&model.request(1).messages);
    }
}

#[tokio::test]
async fn it_is_tried_once_more_also_where_the_window_is_not_known() {
    let model = ScriptedModel::new().turn(too_long()).turn(text("now it fits"));
    let agent = Agent::builder("tester", model.clone()).context(SlidingWindow::keep_last(3));
    let result = agent.build().unwrap().run("go").history(history()).await.unwrap();
    assert_eq!(result.output, "now it fits");
    assert!(size(&model.request(1)) < size(&model.request(0)));
}

#[tokio::test]
async fn it_is_not_tried_a_third_time() {
    let model = ScriptedModel::new().turn(too_long()).turn(too_long()).turn(text("never"));
    let agent = Agent::builder("tester", model.clone())
        .context(ContextConfig::new(Truncate::new()).max_tokens(100_000));
    let agent = agent.build().unwrap();
    let error = agent.run("go").history(history()).await.unwrap_err();
    assert!(matches!(&error, Error::Model(error) if error.class == ModelErrorClass::ContextLength));
    assert_eq!(model.call_count(), 2);
}

#[tokio::test]
async fn where_nothing_can_be_left_out_the_providers_error_stands() {
    let notes = Notes::default();
    let model = ScriptedModel::new().turn(too_long()).turn(text("never"));
    let agent = Agent::builder("tester", model.clone())
        .context(ContextConfig::new(Truncate::new()).max_tokens(100_000));
    let agent = agent.hook(notes.clone()).build().unwrap();
    let error = agent.run("go").await.unwrap_err();
    assert!(matches!(&error, Error::Model(error) if error.class == ModelErrorClass::ContextLength));
    assert_eq!(model.call_count(), 1);
    assert_eq!(*notes.0.lock().unwrap(), ["context_length"], "hooks see the failed call");
    let plain = Agent::builder("tester", ScriptedModel::new().turn(too_long())).build().unwrap();
    assert!(matches!(plain.run("go").history(history()).await, Err(Error::Model(_))));
}

#[tokio::test]
async fn what_cannot_fit_fails_before_the_model_is_asked() {
    let store = InMemorySessionStore::new();
    let model = ScriptedModel::new().turn(text("never"));
    let agent = Agent::builder("tester", model.clone())
        .context(ContextConfig::new(Truncate::new()).max_tokens(20));
    let agent = agent.session_store(store.clone()).build().unwrap();
    let error = agent.run("word ".repeat(100)).session("s").await.unwrap_err();
    assert!(matches!(error, Error::Context(ContextError::TooLarge { .. })), "{error}");
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert_eq!(model.call_count(), 0);
    assert!(store.load("s").await.unwrap().is_none());
}

#[tokio::test]
async fn a_strategy_that_tears_calls_from_results_is_repaired() {
    let (strategy, _) = by(|input: CompactionInput<'_>| {
        let whole = input.messages.iter().filter(|message| message.role != Role::Tool);
        CompactionResult::messages(whole.cloned().collect::<Vec<_>>())
    });
    let two = [("wordy", json!({})), ("wordy", json!({}))];
    let model = ScriptedModel::new().turn(calls(two)).turn(text("done"));
    let agent = Agent::builder("tester", model.clone())
        .tool(wordy())
        .context(ContextConfig::new(strategy).max_tokens(1));
    agent.build().unwrap().run("go").await.unwrap();
    assert_well_formed(&model.request(1).messages);
}

#[tokio::test]
async fn what_summaries_use_is_counted() {
    let used = Usage::new(100, 10);
    let model = ScriptedModel::from_fn(move |_, _| long_answer().usage(used));
    let (agent, writer) = summarizing(&model, BUDGET);
    let agent = agent.session_store(InMemorySessionStore::new()).build().unwrap();
    agent.run(long_question()).session("s").await.unwrap();
    let result = agent.run("next").session("s").await.unwrap();
    assert_eq!(writer.call_count(), 1);
    assert_eq!(result.usage, Usage::new(170, 17));
    // A summary that is no shorter than what it sums up is thrown away, but not free.
    let long = ScriptedModel::from_fn(move |_, _| text("gamma ".repeat(400)).usage(used));
    let strategy = Summarize::new(Arc::new(long)).keep_recent(1);
    let model = ScriptedModel::new().turn(text("done").usage(used));
    let agent =
        Agent::builder("tester", model).context(ContextConfig::new(strategy).max_tokens(BUDGET));
    let answer = Message::assistant("beta ".repeat(40));
    let history = [Message::user(long_question()), answer].map(Arc::new);
    let result = agent.build().unwrap().run("next").history(history).await.unwrap();
    assert_eq!(result.usage, Usage::new(200, 20));
}

/// The source's preview still lets a summarizing strategy ask its model.
#[tokio::test]
async fn peeking_asks_no_model_at_all() {
    let (agent, model, writer) = compacted(InMemorySessionStore::new()).await;
    let (before, summaries) = (model.call_count(), writer.call_count());
    let peeked =
        agent.run(long_question() + &long_question()).session("s").preview().await.unwrap();
    assert_eq!(peeked.messages[0].text(), "summary 0: the word is banana");
    assert_eq!((model.call_count(), writer.call_count()), (before, summaries));
}
