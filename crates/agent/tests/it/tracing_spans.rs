//! The spans of a run: names, parents, fields.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use provost_agent::hook::{Hook, HookDecision, HookError};
use provost_agent::{Agent, AgentBuilder};
use provost_core::{ContentPart, ToolCall, ToolResult, Usage};
use provost_model::{ModelErrorClass, ScriptedModel, ScriptedTurn, call, calls, fail, text};
use provost_tool::{RequiresApproval, RunContext, ToolError, tool_fn};
use serde_json::json;
use tracing::Dispatch;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::support::{Say, broken, echo, events, final_text};

/// One span as it was recorded.
#[derive(Debug, Clone, Default)]
struct Span {
    id: u64,
    parent: Option<u64>,
    name: &'static str,
    fields: BTreeMap<String, String>,
}

impl Span {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    fn failed_with(&self) -> Option<&str> {
        assert_eq!(self.field("otel.status_code").is_some(), self.field("error.type").is_some());
        self.field("error.type")
    }
}

/// Field values as text.
impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Everything this thread's runs record, as long as the guard lives.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

impl Spans {
    fn watch() -> (Self, DefaultGuard) {
        // With a single subscriber alive, a call site first reached on a thread without one would stay silent for all.
        static ALWAYS: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));
        LazyLock::force(&ALWAYS);
        let spans = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(spans.clone()));
        (spans, guard)
    }

    fn all(&self, name: &str) -> Vec<Span> {
        self.0.lock().unwrap().iter().filter(|span| span.name == name).cloned().collect()
    }

    fn one(&self, name: &str) -> Span {
        let mut all = self.all(name);
        assert_eq!(all.len(), 1, "{:#?}", self.0.lock().unwrap());
        all.remove(0)
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let parent = cx.span(id).and_then(|span| span.parent()).map(|span| span.id().into_u64());
        let name = attributes.metadata().name();
        let mut span = Span { id: id.into_u64(), parent, name, ..Span::default() };
        attributes.record(&mut span);
        self.0.lock().unwrap().push(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _cx: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // An id is used again once its span is closed, so the newest one is meant.
        let span = spans.iter_mut().rfind(|span| span.id == id.into_u64()).unwrap();
        values.record(span);
    }
}

fn script(turns: impl IntoIterator<Item = ScriptedTurn>) -> ScriptedModel {
    turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn)
}

fn with_echo(model: &ScriptedModel) -> AgentBuilder {
    Agent::builder("tester", model.clone()).tool(echo(&Arc::new(AtomicUsize::new(0))))
}

fn two_calls() -> ScriptedTurn {
    calls([("echo", json!({"text": "secret"})), ("broken", json!({}))])
}

#[tokio::test]
async fn s046_continuing_without_a_conversation_records_no_success() {
    let (spans, _guard) = Spans::watch();
    let agent = with_echo(&ScriptedModel::new()).build().unwrap();
    let owed = ToolCall::new("c", "echo", &json!({}));
    agent.submit_tool_results([ToolResult::text(&owed, "1")]).await.unwrap_err();
    assert_eq!(spans.one("invoke_agent").failed_with(), Some("start"));
    assert!(spans.all("chat").is_empty());
}

#[tokio::test]
async fn s162_a_run_has_a_span() {
    let (spans, _guard) = Spans::watch();
    with_echo(&script([text("hi")])).build().unwrap().run("hello").await.unwrap();
    let run = spans.one("invoke_agent");
    assert_eq!(run.field("gen_ai.operation.name"), Some("invoke_agent"));
    assert_eq!(run.field("gen_ai.agent.name"), Some("tester"));
    assert_eq!(run.field("otel.name"), Some("invoke_agent tester"));
    assert!(run.field("run.id").unwrap().starts_with("run_"));
    assert_eq!((run.parent, run.failed_with()), (None, None));
    let chat = spans.one("chat");
    assert_eq!(chat.parent, Some(run.id));
    assert_eq!(chat.field("gen_ai.provider.name"), Some("scripted"));
    assert_eq!(chat.field("gen_ai.request.model"), Some("scripted-1"));
}

#[tokio::test]
async fn s163_a_failed_run_is_an_error_span() {
    let (spans, _guard) = Spans::watch();
    let model = script([fail(ModelErrorClass::Overloaded, "a long story with ids in it")]);
    with_echo(&model).build().unwrap().run("hello").await.unwrap_err();
    // The source records the whole message; a class keeps the number of different values small.
    for name in ["invoke_agent", "chat"] {
        let span = spans.one(name);
        assert_eq!(span.failed_with(), Some("overloaded"));
        assert_eq!(span.field("otel.status_code"), Some("ERROR"));
    }
}

#[tokio::test]
async fn s164_a_run_span_has_the_totals() {
    let (spans, _guard) = Spans::watch();
    let model = script([
        call("echo", json!({})).usage(Usage::new(100, 10)),
        text("done").usage(Usage::new(200, 20)),
    ]);
    with_echo(&model).build().unwrap().run("go").await.unwrap();
    let run = spans.one("invoke_agent");
    assert_eq!(run.field("gen_ai.usage.input_tokens"), Some("300"));
    assert_eq!(run.field("gen_ai.usage.output_tokens"), Some("30"));
    assert_eq!(run.field("gen_ai.agent.total_turns"), Some("2"));
    assert_eq!(run.field("gen_ai.agent.total_tool_calls"), Some("1"));
    let chats = spans.all("chat");
    let inputs: Vec<_> = chats.iter().map(|chat| chat.field("gen_ai.usage.input_tokens")).collect();
    assert_eq!(inputs, [Some("100"), Some("200")]);
}

#[tokio::test]
async fn s165_a_tool_call_has_a_span() {
    let (spans, _guard) = Spans::watch();
    let model = script([call("echo", json!({"text": "secret"})), text("done")]);
    with_echo(&model).build().unwrap().run("go").await.unwrap();
    let tool = spans.one("execute_tool");
    assert_eq!(tool.field("gen_ai.operation.name"), Some("execute_tool"));
    assert_eq!(tool.field("gen_ai.tool.name"), Some("echo"));
    assert_eq!(tool.field("gen_ai.tool.call.id"), Some("call_1"));
    assert_eq!(tool.failed_with(), None);
    let everything = format!("{:?}", spans.0.lock().unwrap());
    assert!(!everything.contains("secret"), "no content in spans: {everything}");
}

#[tokio::test]
async fn s165_what_a_tool_does_is_inside_its_span() {
    let (spans, _guard) = Spans::watch();
    let inner = Agent::builder("inner", script([text("42")])).build().unwrap();
    let ask = tool_fn("ask", "Asks another agent", move |_cx, args: Say| {
        let inner = inner.clone();
        async move { inner.run(args.text).await.map(|result| result.output).map_err(ToolError::from) }
    });
    let model = script([call("ask", json!({"text": "how many?"})), text("42 it is")]);
    let agent = Agent::builder("outer", model).tool(ask.unwrap()).build().unwrap();
    agent.run("go").await.unwrap();
    let runs = spans.all("invoke_agent");
    let tool = spans.one("execute_tool");
    let (outer, inner) = (&runs[0], &runs[1]);
    assert_eq!(inner.field("gen_ai.agent.name"), Some("inner"));
    assert_eq!((tool.parent, inner.parent), (Some(outer.id), Some(tool.id)));
}

/// Refuses every call.
struct Refuse;

#[async_trait]
impl Hook for Refuse {
    async fn before_tool_call(
        &self,
        _cx: &RunContext,
        _call: &mut ToolCall,
    ) -> Result<HookDecision, HookError> {
        Ok(HookDecision::Deny("no".into()))
    }
}

#[tokio::test]
async fn s166_a_denied_call_has_no_span() {
    let (spans, _guard) = Spans::watch();
    let turns = || [call("echo", json!({})), text("done")];
    with_echo(&script(turns())).hook(Refuse).build().unwrap().run("go").await.unwrap();
    let ask = echo(&Arc::default()).with_spec(|spec| spec.approval(RequiresApproval::Always));
    let agent = Agent::builder("tester", script(turns())).tool(ask).build().unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(spans.all("invoke_agent").len(), 2);
    assert!(spans.all("execute_tool").is_empty());
}

#[tokio::test]
async fn s167_two_calls_are_grouped() {
    for streamed in [false, true] {
        let (spans, _guard) = Spans::watch();
        let model = script([two_calls(), text("done")]);
        let run = with_echo(&model).tool(broken()).build().unwrap().run("go");
        if streamed {
            assert_eq!(final_text(&events(run.stream()).await), "done");
        } else {
            run.await.unwrap();
        }
        let group = spans.one("execute_tools");
        assert_eq!(group.parent, Some(spans.one("invoke_agent").id));
        assert_eq!(group.field("tool.count"), Some("2"));
        let tools = spans.all("execute_tool");
        assert_eq!(tools.len(), 2);
        assert!(tools.iter().all(|tool| tool.parent == Some(group.id)));
        let failed: Vec<_> = tools.iter().map(Span::failed_with).collect();
        assert_eq!(failed, [None, Some("tool_error")]);
    }
}

#[tokio::test]
async fn s168_one_call_is_not_grouped() {
    let (spans, _guard) = Spans::watch();
    let model = script([call("echo", json!({})), text("done")]);
    with_echo(&model).build().unwrap().run("go").await.unwrap();
    assert!(spans.all("execute_tools").is_empty());
    assert_eq!(spans.one("execute_tool").parent, Some(spans.one("invoke_agent").id));
}

/// Cannot read any message.
struct Illiterate;

#[async_trait]
impl Hook for Illiterate {
    async fn on_user_message(
        &self,
        _: &RunContext,
        _: &mut Vec<ContentPart>,
    ) -> Result<HookDecision, HookError> {
        Err(HookError::new("cannot read"))
    }
}

#[tokio::test]
async fn s169_a_stream_has_its_spans_too() {
    let (spans, _guard) = Spans::watch();
    let model = script([call("echo", json!({})), text("done")]);
    let agent = with_echo(&model).build().unwrap();
    events(agent.run("go").stream()).await;
    let run = spans.one("invoke_agent");
    assert_eq!((spans.one("execute_tool").parent, run.failed_with()), (Some(run.id), None));
    assert_eq!(run.field("gen_ai.agent.total_turns"), Some("2"));
}

#[tokio::test]
async fn s169_a_failing_message_hook_is_an_error_span() {
    let (spans, _guard) = Spans::watch();
    let agent = with_echo(&ScriptedModel::new()).hook(Illiterate).build().unwrap();
    events(agent.run("go").stream()).await;
    assert_eq!(spans.one("invoke_agent").failed_with(), Some("hook"));
    assert!(spans.all("chat").is_empty());
}
