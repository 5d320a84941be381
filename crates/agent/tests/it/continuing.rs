//! Going on with results of calls that were left to the caller.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookError, RunEnd, StartDecision};
use provost_agent::run::ContinueError;
use provost_agent::{Agent, Error, RunBuilder, RunOutcome};
use provost_core::{
    ErrorKind, Event, EventKind, Message, Role, RunSummary, StopReason, ToolCall, ToolResult,
};
use provost_model::{ModelErrorClass, ScriptedModel, ScriptedTurn, calls, fail, text};
use provost_session::{InMemorySessionStore, Session, SessionStore};
use provost_tool::RunContext;
use serde_json::json;

use crate::support::{assert_well_formed, echo, events, final_text, roles, stored};

/// A conversation that waits for the results of its calls.
struct Waiting {
    agent: Agent,
    model: ScriptedModel,
    store: InMemorySessionStore,
    pending: Vec<ToolCall>,
    /// How often the tool ran.
    ran: Arc<AtomicUsize>,
}

impl Waiting {
    /// A run that left so many calls to the caller; the model goes on with `then`.
    async fn for_calls(count: usize, then: ScriptedTurn) -> Self {
        let asking = calls((0..count).map(|index| ("echo", json!({"text": index.to_string()}))));
        let model = ScriptedModel::new().turn(asking).turn(then);
        let (store, ran) = (InMemorySessionStore::new(), Arc::new(AtomicUsize::new(0)));
        let agent = Agent::builder("tester", model.clone()).tool(echo(&ran)).external_tools();
        let agent = agent.session_store(store.clone()).build().unwrap();
        let result = agent.run("go").session("s").await.unwrap();
        assert_eq!(result.stop, StopReason::ToolUse);
        Self { agent, model, store, pending: result.pending_calls, ran }
    }

    async fn for_one() -> Self {
        Self::for_calls(1, text("done")).await
    }

    fn results(&self) -> Vec<ToolResult> {
        let result = |call: &ToolCall| ToolResult::text(call, format!("result of {}", call.id));
        self.pending.iter().map(result).collect()
    }

    fn go_on(&self) -> RunBuilder {
        self.agent.submit_tool_results(self.results()).session("s")
    }

    async fn messages(&self) -> Vec<Arc<Message>> {
        stored(&self.store, "s").await
    }

    /// The error of these results; nothing else may have happened.
    async fn refused(&self, results: Vec<ToolResult>) -> ContinueError {
        let before = self.store.load("s").await.unwrap();
        let error = self.agent.submit_tool_results(results).session("s").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(self.store.load("s").await.unwrap(), before);
        assert_eq!(self.model.call_count(), 1);
        match error {
            Error::Continue(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// What a test's hook does at the ends of an agent.
#[derive(Clone, Default)]
struct Ends {
    entry: StartDecision,
    entry_error: Option<&'static str>,
    replace: Option<&'static str>,
    after_error: Option<&'static str>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Ends {
    fn note(&self, what: impl Into<String>) {
        self.seen.lock().unwrap().push(what.into());
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

#[async_trait]
impl Hook for Ends {
    async fn before_run(&self, _cx: &RunContext, _input: &str) {
        self.note("before_run");
    }

    async fn before_agent(
        &self,
        _cx: &RunContext,
        _input: &str,
    ) -> Result<StartDecision, HookError> {
        self.note("before_agent");
        match self.entry_error {
            Some(error) => Err(HookError::new(error)),
            None => Ok(self.entry.clone()),
        }
    }

    async fn after_agent(
        &self,
        _cx: &RunContext,
        summary: &mut RunSummary,
    ) -> Result<(), HookError> {
        self.note("after_agent");
        if let Some(text) = self.replace {
            text.clone_into(&mut summary.text);
        }
        self.after_error.map_or(Ok(()), |error| Err(HookError::new(error)))
    }

    async fn after_run(&self, _cx: &RunContext, end: &RunEnd<'_>) {
        let summary = end.summary.map(|summary| summary.text.as_str());
        let error = end.error.map(|error| error.code.as_str());
        self.note(format!("after_run {}", summary.or(error).unwrap_or("without an answer")));
    }
}

/// The code and the sentence a stream failed with.
fn failure(events: &[Event]) -> (String, String) {
    match &events.last().unwrap().kind {
        EventKind::Failed { error } => (error.code.clone(), error.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn s033_calls_are_left_to_the_caller_and_their_results_taken_in() {
    let waiting = Waiting::for_one().await;
    assert_eq!(waiting.ran.load(Ordering::SeqCst), 0, "not executed");
    assert_eq!(waiting.pending.len(), 1);
    assert_eq!(waiting.model.call_count(), 1);
    let result = waiting.go_on().await.unwrap();
    assert_eq!((result.output.as_str(), result.turns), ("done", 1));
    assert_eq!(waiting.model.call_count(), 2);
    let request = waiting.model.request(1);
    assert_eq!(request.last_tool_result().unwrap().to_text(), "result of call_1");
    assert_well_formed(&request.messages);
    let messages = waiting.messages().await;
    assert_eq!(roles(&messages), [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    assert_well_formed(&messages);
}

#[tokio::test]
async fn s034_continuing_without_a_conversation_is_an_error() {
    let waiting = Waiting::for_one().await;
    let error = waiting.agent.submit_tool_results(waiting.results()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "start"));
    assert!(error.to_string().contains(".session(..)"), "{error}");
    let events = events(waiting.agent.submit_tool_results(waiting.results()).stream()).await;
    assert_eq!(failure(&events).0, "start");
    assert_eq!(waiting.model.call_count(), 1);
}

#[tokio::test]
async fn s035_continuing_without_results_is_an_error() {
    let waiting = Waiting::for_one().await;
    assert_eq!(waiting.refused(Vec::new()).await, ContinueError::NoResults);
    let stream = waiting.agent.submit_tool_results([]).session("s").stream();
    assert_eq!(failure(&events(stream).await).0, "continue");
}

#[tokio::test]
async fn s036_several_results_at_once_in_any_order() {
    let waiting = Waiting::for_calls(3, text("done")).await;
    let mut results = waiting.results();
    results.reverse();
    waiting.agent.submit_tool_results(results).session("s").await.unwrap();
    let messages = waiting.messages().await;
    assert_well_formed(&messages);
    let texts: Vec<_> = messages[2].tool_results().map(|result| result.to_text()).collect();
    assert_eq!(texts, ["result of call_1", "result of call_2", "result of call_3"]);
}

#[tokio::test]
async fn s037_a_stream_goes_on_from_a_stream() {
    let waiting = Waiting::for_calls(1, calls([("echo", json!({}))])).await;
    let again = events(waiting.go_on().stream()).await;
    let EventKind::Finished { summary } = &again.last().unwrap().kind else { panic!("{again:?}") };
    assert_eq!(summary.pending_calls.len(), 1);
    let then = ScriptedModel::new().turn(text("done"));
    let results = [ToolResult::text(&summary.pending_calls[0], "3")];
    let run = waiting.agent.submit_tool_results(results).session("s").model(then);
    assert_eq!(final_text(&events(run.stream()).await), "done");
    assert_eq!(waiting.messages().await.len(), 6);
    assert_well_formed(&waiting.messages().await);
}

#[tokio::test]
async fn s038_pending_calls_are_in_the_session() {
    let waiting = Waiting::for_calls(2, text("done")).await;
    let messages = waiting.messages().await;
    let calls: Vec<_> = messages[1].tool_calls().cloned().collect();
    assert_eq!(calls, waiting.pending);
    // Placeholders keep the conversation valid for every provider until the results are there.
    assert!(messages[2].tool_results().all(|result| result.pending));
    assert_well_formed(&messages);
}

#[tokio::test]
async fn s039_an_answer_before_the_agent_ends_it() {
    let waiting = Waiting::for_one().await;
    let hook = Ends { entry: StartDecision::Respond("cached".into()), ..Ends::default() };
    let result = waiting.go_on().hook(hook.clone()).await.unwrap();
    assert_eq!((result.output.as_str(), result.turns), ("cached", 0));
    let events = events(waiting.go_on().hook(hook).stream()).await;
    assert_eq!(final_text(&events), "cached");
    assert_eq!(waiting.model.call_count(), 1);
    assert_eq!(waiting.go_on().await.unwrap().output, "done", "the results are still owed");
}

#[tokio::test]
async fn s040_an_error_before_the_agent_fails_it() {
    let waiting = Waiting::for_one().await;
    let hook = Ends { entry_error: Some("not today"), ..Ends::default() };
    let error = waiting.go_on().hook(hook.clone()).await.unwrap_err();
    assert!(matches!(&error, Error::Hook { point: "before_agent", .. }), "{error}");
    let (code, message) = failure(&events(waiting.go_on().hook(hook).stream()).await);
    assert_eq!(code, "hook");
    assert!(message.contains("not today"));
    assert_eq!(waiting.model.call_count(), 1);
}

#[tokio::test]
async fn s041_a_change_after_the_agent_is_the_result() {
    let hook = Ends { replace: Some("better"), ..Ends::default() };
    let waiting = Waiting::for_one().await;
    let result = waiting.go_on().hook(hook.clone()).await.unwrap();
    assert_eq!((result.output.as_str(), result.text.as_str()), ("better", "better"));
    let waiting = Waiting::for_one().await;
    let events = events(waiting.go_on().hook(hook).stream()).await;
    assert_eq!(final_text(&events), "better");
}

#[tokio::test]
async fn s042_an_error_after_the_agent_fails_it() {
    let hook = Ends { after_error: Some("too rude"), ..Ends::default() };
    let waiting = Waiting::for_one().await;
    let error = waiting.go_on().hook(hook.clone()).await.unwrap_err();
    assert!(matches!(&error, Error::Hook { point: "after_agent", .. }), "{error}");
    let waiting = Waiting::for_one().await;
    let (code, message) = failure(&events(waiting.go_on().hook(hook).stream()).await);
    assert_eq!(code, "hook");
    assert!(message.contains("too rude"));
}

#[tokio::test]
async fn s043_before_and_after_run_fire_once() {
    let expected = ["before_run", "before_agent", "after_agent", "after_run done"];
    let hook = Ends::default();
    let waiting = Waiting::for_one().await;
    waiting.go_on().hook(hook.clone()).await.unwrap();
    assert_eq!(hook.seen(), expected);
    let waiting = Waiting::for_one().await;
    events(waiting.go_on().hook(hook.clone()).stream()).await;
    assert_eq!(hook.seen(), expected);
    // The source leaves out the end of runs that fail early; here every run that began has one.
    waiting.agent.submit_tool_results([]).session("s").hook(hook.clone()).await.unwrap_err();
    assert_eq!(hook.seen(), ["before_run", "before_agent", "after_run continue"]);
}

/// The source gives neither a response nor an error; here it is an outcome of its own.
#[tokio::test]
async fn s044_a_refusal_before_the_agent_is_an_outcome() {
    let waiting = Waiting::for_one().await;
    let hook = Ends { entry: StartDecision::Deny("closed".into()), ..Ends::default() };
    let outcome = waiting.go_on().hook(hook.clone()).outcome().await.unwrap();
    assert_eq!(outcome, RunOutcome::Denied { reason: "closed".into() });
    assert_eq!(waiting.model.call_count(), 1);
    let seen = ["before_run", "before_agent", "after_agent", "after_run without an answer"];
    assert_eq!(hook.seen(), seen);
    let error = waiting.go_on().hook(hook).await.unwrap_err();
    assert!(matches!(&error, Error::Denied { reason } if reason == "closed"));
}

/// The source ends such a stream with a completion that has no response; here a terminal event of its own says why.
#[tokio::test]
async fn s045_a_refusal_before_the_agent_ends_the_stream() {
    let waiting = Waiting::for_one().await;
    let hook = Ends { entry: StartDecision::Deny("closed".into()), ..Ends::default() };
    let events = events(waiting.go_on().hook(hook).stream()).await;
    assert_eq!(events.last().unwrap().kind, EventKind::Denied { reason: "closed".into() });
    assert_eq!(waiting.model.call_count(), 1);
}

#[tokio::test]
async fn results_that_do_not_fit_are_refused_by_name() {
    let waiting = Waiting::for_calls(2, text("done")).await;
    let results = waiting.results();
    let stranger = ToolCall::new("call_9", "echo", &json!({}));
    let unknown = vec![results[0].clone(), ToolResult::text(&stranger, "?")];
    let error = waiting.refused(unknown).await;
    let sentence = "`call_9` is not a pending call: the pending ones are `call_1`, `call_2`";
    assert_eq!(error.to_string(), sentence);
    let error = waiting.refused(vec![results[0].clone(); 2]).await;
    assert_eq!(error, ContinueError::Duplicate("call_1".into()));
    let error = waiting.refused(vec![results[0].clone()]).await;
    assert!(matches!(&error, ContinueError::Missing(ids) if ids == "`call_2`"), "{error}");
    assert_eq!(waiting.go_on().await.unwrap().output, "done");
}

#[tokio::test]
async fn results_are_taken_in_once() {
    let waiting = Waiting::for_one().await;
    waiting.go_on().await.unwrap();
    let error = waiting.go_on().await.unwrap_err();
    assert!(matches!(error, Error::Continue(ContinueError::NothingPending)), "{error}");
    let error =
        waiting.agent.submit_tool_results(waiting.results()).session("new").await.unwrap_err();
    assert!(matches!(error, Error::Continue(ContinueError::NothingPending)), "{error}");
}

#[tokio::test]
async fn a_new_message_in_place_of_the_results_closes_the_calls() {
    let waiting = Waiting::for_one().await;
    let result = waiting.agent.run("never mind").session("s").await.unwrap();
    assert_eq!(result.output, "done");
    let request = waiting.model.request(1);
    assert_well_formed(&request.messages);
    let told = request.last_tool_result().unwrap();
    assert!(told.is_error && !told.pending, "{told:?}");
    let messages = waiting.messages().await;
    let expected = [Role::User, Role::Assistant, Role::Tool, Role::User, Role::Assistant];
    assert_eq!(roles(&messages), expected);
    assert!(messages.iter().flat_map(|m| m.tool_results()).all(|result| !result.pending));
    let error = waiting.go_on().await.unwrap_err();
    assert!(matches!(error, Error::Continue(ContinueError::NothingPending)), "{error}");
}

#[tokio::test]
async fn a_failing_model_call_leaves_the_results_owed() {
    let waiting = Waiting::for_calls(1, fail(ModelErrorClass::Overloaded, "later")).await;
    let before = waiting.store.load("s").await.unwrap();
    waiting.go_on().await.unwrap_err();
    assert_eq!(waiting.store.load("s").await.unwrap(), before);
    let again = waiting.go_on().model(ScriptedModel::new().turn(text("done")));
    assert_eq!(again.await.unwrap().output, "done");
    assert_well_formed(&waiting.messages().await);
}

#[tokio::test]
async fn a_conversation_kept_by_the_program_goes_on_too() {
    let waiting = Waiting::for_one().await;
    let history = waiting.messages().await;
    let run = waiting.agent.submit_tool_results(waiting.results()).history(history);
    assert_eq!(run.await.unwrap().output, "done");
    assert_well_formed(&waiting.model.request(1).messages);
}

/// Histories of other programs end with the calls themselves, without a placeholder.
#[tokio::test]
async fn a_conversation_that_ends_with_its_calls_goes_on() {
    let waiting = Waiting::for_calls(2, text("done")).await;
    let bare: Vec<_> = waiting.messages().await[..2].to_vec();
    let run = waiting.agent.submit_tool_results(waiting.results()).history(bare.clone());
    assert_eq!(run.await.unwrap().output, "done");
    assert_well_formed(&waiting.model.request(1).messages);
    let store = InMemorySessionStore::new();
    let session = Session::new(Arc::new(store.clone()), "s");
    session.add(bare.iter().map(|message| Message::clone(message))).await.unwrap();
    let model = ScriptedModel::new().turn(text("done"));
    let run = waiting.agent.submit_tool_results(waiting.results()).model(model);
    assert_eq!(run.session_in(Arc::new(store.clone()), "s").await.unwrap().output, "done");
    let messages = stored(&store, "s").await;
    assert_eq!(roles(&messages), [Role::User, Role::Assistant, Role::Tool, Role::Assistant]);
    assert_well_formed(&messages);
}

#[tokio::test]
async fn results_that_were_there_already_stay() {
    let waiting = Waiting::for_calls(2, text("done")).await;
    let mut messages: Vec<Message> =
        waiting.messages().await.iter().map(|message| Message::clone(message)).collect();
    let first = ToolResult::text(&waiting.pending[0], "known");
    messages[2] = Message::results([first, ToolResult::placeholder(&waiting.pending[1])]);
    let given = [ToolResult::text(&waiting.pending[1], "new")];
    let history = messages.into_iter().map(Arc::new);
    let run = waiting.agent.submit_tool_results(given).history(history);
    assert_eq!(run.await.unwrap().output, "done");
    let sent = waiting.model.request(1).messages;
    assert_well_formed(&sent);
    let texts: Vec<_> = sent[2].tool_results().map(|result| result.to_text()).collect();
    assert_eq!(texts, ["known", "new"]);
}
