//! Conversations that outgrow the model's context.

mod fitting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_agent::context::{
    CompactionInput, CompactionResult, ContextConfig, ContextError, ContextStrategy, Summarize,
};
use provost_agent::{Agent, AgentBuilder};
use provost_core::{Message, Role, ToolCall, ToolResult, Usage};
use provost_model::{ScriptedModel, ScriptedTurn, text};
use provost_session::{InMemorySessionStore, Session, SessionChange, SessionStore};
use serde_json::json;

use crate::support::{assert_well_formed, in_file, roles, stored};

/// A strategy that is a function, and counts how often it was asked.
struct By<F> {
    fit: F,
    asked: Arc<AtomicUsize>,
}

impl<F: Fn(CompactionInput<'_>) -> CompactionResult + Send + Sync + 'static> ContextStrategy
    for By<F>
{
    fn name(&self) -> &str {
        "by_hand"
    }

    fn compact<'a>(
        &'a self,
        input: CompactionInput<'a>,
    ) -> BoxFuture<'a, Result<CompactionResult, ContextError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok((self.fit)(input))).boxed()
    }
}

fn by<F: Fn(CompactionInput<'_>) -> CompactionResult + Send + Sync + 'static>(
    fit: F,
) -> (By<F>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    (By { fit, asked: Arc::clone(&asked) }, asked)
}

/// A strategy that puts a summary before the newest messages and stores it there.
fn summary_before(keep: usize) -> (impl ContextStrategy, Arc<AtomicUsize>) {
    by(move |input: CompactionInput<'_>| {
        let mut after = vec![Arc::new(Message::summary("so far"))];
        after.extend_from_slice(&input.messages[input.messages.len() - keep..]);
        let session = Some(SessionChange { pop: keep, add: after.clone() });
        CompactionResult { messages: after, session, ..CompactionResult::default() }
    })
}

fn texts(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| message.text()).collect()
}

/// A long first message, its answer, and a budget that only both together exceed.
const BUDGET: u64 = 200;

fn long_question() -> String {
    format!("remember the word banana {}", "alpha ".repeat(95))
}

fn long_answer() -> ScriptedTurn {
    text("beta ".repeat(40))
}

/// An agent that summarizes all but the newest message; with the model that writes the summaries.
fn summarizing(model: &ScriptedModel, tokens: u64) -> (AgentBuilder, ScriptedModel) {
    let writer = ScriptedModel::from_fn(|_, index| {
        text(format!("summary {index}: the word is banana")).usage(Usage::new(70, 7))
    });
    let strategy = Summarize::new(Arc::new(writer.clone())).keep_recent(1);
    let agent = Agent::builder("tester", model.clone())
        .context(ContextConfig::new(strategy).max_tokens(tokens));
    (agent, writer)
}

/// Two turns, of which the second is compacted.
async fn compacted(store: impl SessionStore + Clone) -> (Agent, ScriptedModel, ScriptedModel) {
    let model = ScriptedModel::from_fn(|_, index| match index {
        0 => long_answer(),
        _ => text(format!("short {index}")),
    });
    let (agent, writer) = summarizing(&model, BUDGET);
    let agent = agent.session_store(store).build().unwrap();
    agent.run(long_question()).session("s").await.unwrap();
    assert_eq!(writer.call_count(), 0, "the first turn fits");
    agent.run("next").session("s").await.unwrap();
    assert_eq!(writer.call_count(), 1);
    (agent, model, writer)
}

#[tokio::test]
async fn s025_a_strategy_rewrites_the_end_of_the_session() {
    let store = InMemorySessionStore::new();
    let session = Session::new(Arc::new(store.clone()), "s");
    let before = [Message::user("one"), Message::assistant("two"), Message::user("three")];
    session.add(before).await.unwrap();
    let (strategy, asked) = summary_before(2);
    let model = ScriptedModel::new().turn(text("five"));
    let agent =
        Agent::builder("tester", model.clone()).context(ContextConfig::new(strategy).max_tokens(1));
    let agent = agent.session_store(store.clone()).build().unwrap();
    agent.run("four").session("s").await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let messages = stored(&store, "s").await;
    assert_eq!(texts(&messages), ["one", "two", "so far", "three", "four", "five"]);
    assert_eq!(messages[2].role, Role::Summary);
    assert_eq!(texts(&model.request(0).messages), ["so far", "three", "four"]);
}

/// The source asks its strategy before it adds the results; here they are part of what must fit, so they are counted.
#[tokio::test]
async fn s026_a_strategy_rewrites_the_end_of_a_continued_session() {
    let store = InMemorySessionStore::new();
    let owed = ToolCall::new("c1", "wordy", &json!({}));
    let session = Session::new(Arc::new(store.clone()), "s");
    let before = [
        Message::user("one"),
        Message::calls([owed.clone()]),
        Message::results([ToolResult::placeholder(&owed)]),
    ];
    session.add(before).await.unwrap();
    let (strategy, _) = summary_before(2);
    let model = ScriptedModel::new().turn(text("done"));
    let agent =
        Agent::builder("tester", model.clone()).context(ContextConfig::new(strategy).max_tokens(1));
    let agent = agent.session_store(store.clone()).build().unwrap();
    agent.submit_tool_results([ToolResult::text(&owed, "42")]).session("s").await.unwrap();
    let messages = stored(&store, "s").await;
    let expected = [Role::User, Role::Summary, Role::Assistant, Role::Tool, Role::Assistant];
    assert_eq!(roles(&messages), expected);
    assert_eq!(messages[3].tool_results().next().unwrap().to_text(), "42");
    assert_well_formed(&model.request(0).messages);
}

#[tokio::test]
async fn s027_only_what_can_be_summarized_is() {
    let model = ScriptedModel::new().turn(long_answer()).turn(text("two"));
    let (agent, writer) = summarizing(&model, 30);
    let agent = agent.session_store(InMemorySessionStore::new()).build().unwrap();
    agent.run(long_question()).session("s").await.unwrap();
    assert_eq!(writer.call_count(), 0, "too large, and nothing to leave out");
    agent.run("next").session("s").await.unwrap();
    assert_eq!(writer.call_count(), 1);
}

#[tokio::test]
async fn s028_the_summary_is_stored_before_what_stays() {
    let store = InMemorySessionStore::new();
    compacted(store.clone()).await;
    let messages = stored(&store, "s").await;
    let expected = [Role::User, Role::Assistant, Role::Summary, Role::User, Role::Assistant];
    assert_eq!(roles(&messages), expected);
    assert_eq!(messages[2].text(), "summary 0: the word is banana");
    assert_eq!(messages[0].text(), long_question(), "what is older stays for the record");
}

#[tokio::test]
async fn s029_the_request_has_the_summary_in_place_of_what_it_sums_up() {
    let (_, model, writer) = compacted(InMemorySessionStore::new()).await;
    let request = model.request(1);
    assert_eq!(texts(&request.messages), ["summary 0: the word is banana", "next"]);
    let sent: String = texts(&writer.request(0).messages).concat();
    assert!(sent.contains("remember the word banana"));
}

#[tokio::test]
async fn s030_a_summary_survives_every_store() {
    let dir = tempfile::tempdir().unwrap();
    let stores: [Arc<dyn SessionStore>; 2] =
        [Arc::new(InMemorySessionStore::new()), Arc::new(in_file(dir.path()))];
    compacted(in_file(dir.path())).await;
    let memory = InMemorySessionStore::new();
    compacted(memory.clone()).await;
    let reopened = &stores[1];
    for messages in [stored(&**reopened, "s").await, stored(&memory, "s").await] {
        assert_eq!(messages.len(), 5);
        let summaries = messages.iter().filter(|message| message.role == Role::Summary);
        assert_eq!(summaries.count(), 1);
    }
}

#[tokio::test]
async fn s031_a_short_turn_after_a_reload_is_not_summarized_again() {
    let dir = tempfile::tempdir().unwrap();
    compacted(in_file(dir.path())).await;
    let model = ScriptedModel::new().turn(text("banana"));
    let (agent, writer) = summarizing(&model, BUDGET);
    let agent = agent.session_store(in_file(dir.path())).build().unwrap();
    agent.run("what was it?").session("s").await.unwrap();
    assert_eq!(writer.call_count(), 0);
    let sent = texts(&model.request(0).messages);
    assert_eq!(sent, ["summary 0: the word is banana", "next", "short 1", "what was it?"]);
}

#[tokio::test]
async fn s032_short_turns_are_not_summarized_again() {
    let store = InMemorySessionStore::new();
    let (agent, _, writer) = compacted(store.clone()).await;
    for _ in 0..3 {
        agent.run("more").session("s").await.unwrap();
    }
    assert_eq!(writer.call_count(), 1);
    let messages = stored(&store, "s").await;
    assert_eq!(messages.iter().filter(|message| message.role == Role::Summary).count(), 1);
}
