//! Tests of the span tree and the span attributes.

use provost_agent::{Agent, Subagent, trace};
use provost_core::Usage;
use provost_model::{ModelErrorClass, ModelSettings, call, calls, fail, text};
use provost_otel::{current_traceparent, set_remote_parent};
use provost_session::InMemorySessionStore;
use provost_tool::{ToolError, tool_fn};
use serde_json::{Value, json};
use tracing::Instrument;

use crate::receiver::{CLIENT, ERROR, INTERNAL, UNSET};
use crate::support::{Say, TelemetryFixture, agent, script};

#[tokio::test]
async fn s224_each_span_says_what_was_done_by_whom() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let turns = [
        call("echo", json!({"text": "x"})).usage(Usage::new(100, 10)),
        text("done").usage(Usage { cache_read: 50, ..Usage::new(200, 20) }),
    ];
    let settings = ModelSettings {
        max_tokens: Some(500),
        temperature: Some(0.5),
        stop: vec!["END".to_owned()],
        ..ModelSettings::default()
    };
    let agent = agent("tester", &script(turns)).settings(settings);
    let agent = agent.session_store(InMemorySessionStore::default()).build().unwrap();
    agent.run("go").session("talk-1").await.unwrap();
    let received = watch.end().await;

    let run = received.span("invoke_agent tester");
    assert_eq!((run.kind, run.status, run.parent.as_str()), (INTERNAL, UNSET, ""));
    for (name, expected) in [
        ("gen_ai.operation.name", json!("invoke_agent")),
        ("gen_ai.provider.name", json!("scripted")),
        ("gen_ai.system", json!("scripted")),
        ("gen_ai.request.model", json!("scripted-1")),
        ("gen_ai.agent.name", json!("tester")),
        ("gen_ai.conversation.id", json!("talk-1")),
        ("gen_ai.usage.input_tokens", json!(300)),
        ("gen_ai.usage.output_tokens", json!(30)),
        ("gen_ai.usage.cache_read.input_tokens", json!(50)),
        ("gen_ai.agent.total_turns", json!(2)),
        ("error.type", Value::Null),
    ] {
        assert_eq!(run.get(name), &expected, "{name}");
    }
    let chats: Vec<_> =
        received.spans().into_iter().filter(|span| span.name == "chat scripted-1").collect();
    assert_eq!(chats.len(), 2);
    let chat = chats.iter().find(|chat| chat.get("gen_ai.usage.input_tokens") == 100).unwrap();
    assert_eq!((chat.kind, chat.status, &chat.parent), (CLIENT, UNSET, &run.id));
    for (name, expected) in [
        ("gen_ai.operation.name", json!("chat")),
        ("gen_ai.provider.name", json!("scripted")),
        ("gen_ai.system", json!("scripted")),
        ("gen_ai.request.model", json!("scripted-1")),
        ("gen_ai.conversation.id", json!("talk-1")),
        ("gen_ai.request.max_tokens", json!(500)),
        ("gen_ai.request.temperature", json!(0.5)),
        ("gen_ai.request.stop_sequences", json!(["END"])),
        ("gen_ai.request.stream", json!(true)),
        ("gen_ai.response.finish_reasons", json!(["tool_call"])),
        ("gen_ai.usage.output_tokens", json!(10)),
        ("gen_ai.usage.cache_read.input_tokens", Value::Null),
    ] {
        assert_eq!(chat.get(name), &expected, "{name}");
    }
    let tool = received.span("execute_tool echo");
    assert_eq!((tool.kind, tool.status, &tool.parent), (INTERNAL, UNSET, &run.id));
    for (name, expected) in [
        ("gen_ai.operation.name", json!("execute_tool")),
        ("gen_ai.tool.name", json!("echo")),
        ("gen_ai.tool.call.id", json!("call_1")),
        ("gen_ai.tool.type", json!("function")),
        ("gen_ai.tool.description", json!("Returns its argument")),
    ] {
        assert_eq!(tool.get(name), &expected, "{name}");
    }
    assert!(received.spans().iter().all(|span| span.trace == run.trace && span.events == 0));
}

#[tokio::test]
async fn s224_what_a_program_adds_is_kept() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let agent = agent("tester", &script([text("done")])).build().unwrap();
    let request = tracing::info_span!("request", http.route = "/ask", tenant = 7_i64);
    agent.run("go").into_future().instrument(request).await.unwrap();
    let received = watch.end().await;
    let request = received.span("request");
    assert_eq!((request.get("http.route"), request.get("tenant")), (&json!("/ask"), &json!(7)));
    assert_eq!(received.span("invoke_agent tester").parent, request.id);
}

#[tokio::test]
async fn s224_a_child_is_below_the_tool_call_that_started_it() {
    for background in [false, true] {
        let watch = TelemetryFixture::start(|builder| builder).await;
        let below = script([call("echo", json!({"text": "x"})), text("forty-two")]);
        let below = agent("child", &below).build().unwrap();
        let above = script([
            call("child", json!({"task": "think", "background": background})),
            call("get_task_result", json!({"task_id": "task-1", "wait": true})),
            text("done"),
        ]);
        let lead = Agent::builder("lead", above).subagent(Subagent::new(&below, "Thinks"));
        lead.build().unwrap().run("go").await.unwrap();
        let received = watch.end().await;
        let above = received.span("invoke_agent lead");
        let asked = received.span("execute_tool child");
        let below = received.span("invoke_agent child");
        let echo = received.span("execute_tool echo");
        assert_eq!((&asked.parent, &below.parent), (&above.id, &asked.id), "{background}");
        assert_eq!((&echo.parent, &echo.trace), (&below.id, &above.trace));
        assert_eq!(below.get("gen_ai.agent.id"), &json!("lead/child"));
    }
}

#[tokio::test]
async fn s224_two_calls_are_below_one_span() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let turns = [calls([("echo", json!({})), ("broken", json!({}))]), text("done")];
    agent("tester", &script(turns)).build().unwrap().run("go").await.unwrap();
    let received = watch.end().await;
    let group = received.span("execute_tools");
    assert_eq!(group.get("tool.count"), &json!(2));
    let (echo, broken) = (received.span("execute_tool echo"), received.span("execute_tool broken"));
    assert_eq!((&echo.parent, &broken.parent), (&group.id, &group.id));
    assert_eq!((echo.status, broken.status), (UNSET, ERROR));
    assert_eq!(broken.get("error.type"), &json!("tool_error"));
}

#[tokio::test]
async fn s224_a_failure_is_an_error_with_its_class() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let model = script([fail(ModelErrorClass::Overloaded, "secret-4711 is on fire")]);
    agent("tester", &model).build().unwrap().run("go").await.unwrap_err();
    let received = watch.end().await;
    for name in ["invoke_agent tester", "chat scripted-1"] {
        let span = received.span(name);
        assert_eq!((span.status, span.get("error.type")), (ERROR, &json!("overloaded")), "{name}");
    }
    assert!(!format!("{:?}", received.spans()).contains("4711"));
}

#[tokio::test]
async fn a_trace_goes_on_in_another_process() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let send = tool_fn("send", "Sends it away", |_cx, _args: Say| async move {
        let traceparent = current_traceparent().unwrap();
        assert_eq!(trace::current_traceparent().as_ref(), Some(&traceparent));
        Ok::<_, ToolError>(traceparent)
    });
    let model = script([call("send", json!({})), text("done")]);
    let here = Agent::builder("here", model.clone()).tool(send.unwrap()).build().unwrap();
    here.run("go").await.unwrap();
    let traceparent = model.request(1).last_tool_result().unwrap().to_text();

    // Another process continues the trace with the text only.
    let there = agent("there", &script([text("done")])).build().unwrap();
    let attempt = tracing::info_span!("attempt");
    assert!(trace::set_parent(&attempt, &traceparent));
    there.run("go on").into_future().instrument(attempt).await.unwrap();

    let received = watch.end().await;
    let (sent, attempt) = (received.span("execute_tool send"), received.span("attempt"));
    assert_eq!(traceparent, format!("00-{}-{}-01", sent.trace, sent.id));
    assert_eq!((&attempt.trace, &attempt.parent), (&sent.trace, &sent.id));
    let there = received.span("invoke_agent there");
    assert_eq!((&there.trace, &there.parent), (&sent.trace, &attempt.id));
}

#[tokio::test]
async fn a_text_that_is_no_traceparent_changes_nothing() {
    let watch = TelemetryFixture::start(|builder| builder).await;
    let zeros = "00-00000000000000000000000000000000-0000000000000000-01";
    for wrong in ["", "hello", zeros, "00-4bf92f3577b34da6a3ce929d0e0e4736", "\u{0}"] {
        let span = tracing::info_span!("attempt");
        assert!(!set_remote_parent(&span, wrong), "{wrong}");
        span.in_scope(|| assert!(current_traceparent().is_some()));
    }
    assert_eq!(current_traceparent(), None, "outside of every span");
    let received = watch.end().await;
    assert_eq!(received.spans().len(), 5);
    assert!(received.spans().iter().all(|span| span.parent.is_empty()));
}

#[tokio::test]
async fn without_an_exporter_there_is_no_trace() {
    let span = tracing::info_span!("attempt");
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert!(!trace::set_parent(&span, parent));
    span.in_scope(|| assert_eq!(trace::current_traceparent(), None));
}
