//! Tests of content capture: prompts, responses, arguments and results.

use provost_agent::Agent;
use provost_model::{call, text};
use provost_otel::TelemetryBuilder;
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::support::{TelemetryFixture, agent, env, script};

const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

fn test_agent() -> Agent {
    let turns = [call("echo", json!({"text": "secret-argument"})), text("secret-answer")];
    agent("tester", &script(turns)).instructions("secret-rules").build().unwrap()
}

async fn exported(with: impl FnOnce(TelemetryBuilder) -> TelemetryBuilder) -> Receiver {
    let watch = TelemetryFixture::start(with).await;
    test_agent().run("secret-question").await.unwrap();
    watch.end().await
}

/// Parses an attribute that contains JSON.
fn parse_attribute(value: &Value) -> Value {
    serde_json::from_str(value.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn s224_content_is_left_out_by_default() {
    for value in ["", "false", "1"] {
        let received = exported(|builder| builder.env(env([(CAPTURE, value)]))).await;
        assert_eq!(received.spans().len(), 4);
        let everything = format!("{:?}", received.spans());
        assert!(!everything.contains("secret"), "{value}: {everything}");
    }
}

#[tokio::test]
async fn s224_content_is_there_with_the_option_or_the_variable() {
    let by_option = exported(|builder| builder.capture_content(true)).await;
    let by_variable = exported(|builder| builder.env(env([(CAPTURE, "true")]))).await;
    for received in [by_option, by_variable] {
        let run = received.span("invoke_agent tester");
        let said = |role: &str, text: &str| json!([{"role": role, "parts": [{"type": "text", "content": text}]}]);
        let question = said("user", "secret-question");
        assert_eq!(parse_attribute(run.get("gen_ai.input.messages")), question);
        let answer = said("assistant", "secret-answer");
        assert_eq!(parse_attribute(run.get("gen_ai.output.messages")), answer);
        let rules = json!([{"type": "text", "content": "secret-rules"}]);
        let chats = received.spans().into_iter().filter(|span| span.name == "chat scripted-1");
        let chats: Vec<_> = chats.collect();
        assert!(
            chats
                .iter()
                .all(|chat| parse_attribute(chat.get("gen_ai.system_instructions")) == rules)
        );
        let last =
            chats.iter().find(|chat| parse_attribute(chat.get("gen_ai.output.messages")) == answer);
        let told = parse_attribute(last.unwrap().get("gen_ai.input.messages"));
        assert_eq!(told.as_array().unwrap().len(), 3);
        assert_eq!(told[1]["parts"][0]["arguments"], json!({"text": "secret-argument"}));
        assert_eq!(told[2]["parts"][0]["response"], "echo: secret-argument");
        let tool = received.span("execute_tool echo");
        let arguments = json!({"text": "secret-argument"});
        assert_eq!(parse_attribute(tool.get("gen_ai.tool.call.arguments")), arguments);
        assert_eq!(tool.get("gen_ai.tool.call.result"), &json!("echo: secret-argument"));
    }
}

#[tokio::test]
async fn s224_without_a_span_no_content_is_sent() {
    let watch = TelemetryFixture::start(|builder| builder.capture_content(true)).await;
    tracing::info!(secret = "secret-word", "an event outside of every span");
    // Another subscriber on this thread hides the spans of the run from the exporter.
    let elsewhere = tracing::subscriber::NoSubscriber::default();
    let unseen = tracing::subscriber::set_default(elsewhere);
    test_agent().run("secret-question").await.unwrap();
    drop(unseen);
    assert!(watch.end().await.spans().is_empty());
}
