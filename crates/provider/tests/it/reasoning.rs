//! Reasoning is sent back only to the provider that understands it.

use std::sync::Arc;

use provost_core::{ContentPart, Message, ProviderData, ToolResult};
use provost_model::{ChatRequest, complete};
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::json;

use crate::content::{ask, tool};
use crate::harness::{Options, WIRES, conversation, model, model_with};

const SIGNATURE: &str = "EqQB/+==\u{2028}\"sig\"";

#[tokio::test]
async fn reasoning_comes_back_and_returns_byte_for_byte_to_its_own_provider_only() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let first = Reply::new().reasoning("hm, ", SIGNATURE).redacted("enc==").and_call(
            "c1",
            "search",
            &json!({"q": "x"}),
        );
        let name = match wire {
            WireKind::Anthropic => "claude-haiku-4-5-20251001",
            WireKind::OpenAiResponses => "gpt-5.1-2025-11-13",
            _ => "some-model",
        };
        provider.replies([first.model(name), Reply::text("done"), Reply::text("done")]);
        let thinker = model(wire, &provider);
        let mut request = ask("Think");
        request.tools = vec![tool("search")];
        let answer = complete(&thinker, request.clone()).await.unwrap();
        let reasoning: Vec<_> = answer.message.reasoning().cloned().collect();
        assert_eq!(reasoning[0].text, "hm, ");
        let call = answer.message.tool_calls().next().unwrap().clone();
        let foreign = ContentPart::Reasoning(provost_core::Reasoning {
            text: "foreign".to_owned(),
            opaque: Some(ProviderData {
                provider: "other".into(),
                kind: "signature".into(),
                data: "zzz".into(),
            }),
        });
        let mut message = answer.message.clone();
        message.parts.insert(0, foreign);
        request.messages.push(Arc::new(message));
        request.messages.push(Arc::new(Message::results([ToolResult::text(&call, "y")])));
        complete(&thinker, request.clone()).await.unwrap();
        assert_sent_back(wire, &provider, request).await;
    }
}

/// Checks that reasoning is sent back unchanged in the vendor's format and that foreign data is removed.
async fn assert_sent_back(wire: WireKind, provider: &FakeProvider, request: ChatRequest) {
    let sent = conversation(wire, &provider.bodies()[1])[1].clone();
    match wire {
        WireKind::OpenAiResponses => {
            let bodies = provider.bodies();
            let summary = json!([{"type": "summary_text", "text": "hm, "}]);
            assert_eq!(
                conversation(wire, &bodies[1]).as_array().unwrap()[1..4],
                [
                    json!({"id": "rs_0", "type": "reasoning", "encrypted_content": SIGNATURE, "summary": summary}),
                    json!({"id": "rs_1", "type": "reasoning", "encrypted_content": "enc==", "summary": []}),
                    json!({"type": "function_call", "call_id": "c1", "name": "search", "arguments": "{\"q\":\"x\"}"}),
                ]
            );
            assert_eq!(bodies[1]["include"], json!(["reasoning.encrypted_content"]));
            assert_eq!(bodies[1]["store"], json!(false));
        }
        WireKind::Gemini => assert_eq!(
            sent["parts"],
            json!([{"functionCall": {"id": "c1", "name": "search", "args": {"q": "x"}}, "thoughtSignature": SIGNATURE}])
        ),
        WireKind::Bedrock => assert_eq!(
            sent["content"],
            json!([
                {"reasoningContent": {"reasoningText": {"text": "hm, ", "signature": SIGNATURE}}},
                {"reasoningContent": {"redactedContent": "enc=="}},
                {"toolUse": {"toolUseId": "c1", "name": "search", "input": {"q": "x"}}},
            ])
        ),
        WireKind::Ollama => {
            assert!(sent.get("thinking").is_none(), "{sent}");
            let options = Options { replay_reasoning: true, ..Options::default() };
            complete(&model_with(wire, provider, options), request).await.unwrap();
            assert_eq!(provider.bodies()[2]["messages"][1]["thinking"], "foreignhm, ");
        }
        WireKind::Anthropic => {
            assert_eq!(
                sent["content"],
                json!([
                    {"type": "thinking", "thinking": "hm, ", "signature": SIGNATURE},
                    {"type": "redacted_thinking", "data": "enc=="},
                    {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}},
                ])
            );
        }
        WireKind::OpenAiChat => {
            assert!(sent.get("reasoning_content").is_none(), "{sent}");
            let options = Options { replay_reasoning: true, ..Options::default() };
            complete(&model_with(wire, provider, options), request).await.unwrap();
            assert_eq!(provider.bodies()[2]["messages"][1]["reasoning_content"], "foreignhm, ");
        }
    }
}
