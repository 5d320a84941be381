//! A conversation that one vendor's model starts and another's continues, for every pair of vendors.

use std::sync::Arc;

use provost_core::{Message, ToolCall, ToolResult};
use provost_model::{ChatRequest, complete};
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::{Map, Value, json};

use crate::content::{ask, tool};
use crate::harness::{WIRES, conversation, model, short};

/// Returns a call id in the style of a vendor. Some vendors have none.
fn call_id(wire: WireKind, number: usize) -> String {
    match wire {
        WireKind::OpenAiChat => format!("call_{number}"),
        WireKind::OpenAiResponses => format!("call_{}{number}", "abcdefgh".repeat(6)),
        WireKind::Anthropic => format!("toolu_{number}"),
        WireKind::Bedrock => format!("tooluse_{number}-x"),
        WireKind::Gemini | WireKind::Ollama => String::new(),
    }
}

/// Returns a conversation with reasoning, text and two calls of one vendor's model. One call has a result, and one
/// result has no call.
async fn history(wire: WireKind) -> ChatRequest {
    let provider = FakeProvider::start().await;
    let reply = Reply::new()
        .reasoning("Hm.", "sealed==")
        .say("I look.")
        .and_call(call_id(wire, 1), "files.search", &json!({"q": "a"}))
        .and_call(call_id(wire, 2), "now", &json!({}));
    provider.reply(reply.model("some-model"));
    let mut request = ask("Look");
    request.tools = vec![tool("files.search"), tool("now")];
    let answer = complete(&model(wire, &provider), request.clone()).await;
    let message = answer.map(|answer| answer.message).unwrap_or_else(|error| panic!("{error}"));
    let found = message.tool_calls().last().map(|call| ToolResult::text(call, "noon"));
    let nobody = ToolCall::new("nobody", "files.search", &json!({}));
    let results = found.into_iter().chain([ToolResult::text(&nobody, "lost")]);
    request.messages.push(Arc::new(message));
    request.messages.push(Arc::new(Message::results(results.collect::<Vec<_>>())));
    request.messages.push(Arc::new(Message::user("Well?")));
    request
}

#[tokio::test]
async fn every_vendor_takes_over_from_every_other() {
    for to in WIRES {
        let mut golden = Map::new();
        for from in WIRES {
            let request = history(from).await;
            let provider = FakeProvider::start().await;
            provider.reply(Reply::text("ok"));
            complete(&model(to, &provider), request)
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            let bodies = provider.bodies();
            golden.insert(format!("from_{}", short(from)), conversation(to, &bodies[0]).clone());
        }
        insta::assert_json_snapshot!(format!("to_{}", short(to)), Value::Object(golden));
    }
}
