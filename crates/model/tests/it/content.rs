//! What is said comes through, in order and whole.

use std::sync::Arc;

use provost_core::{
    Document, Image, Message, Opaque, Part, ResultPart, Role, StopReason, Timestamp, ToolCall,
    ToolDef, ToolResult, Usage,
};
use provost_model::{ChatModel, ChatRequest, ModelEvent, ToolChoice, complete, openai_compatible};
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::json;

use crate::harness::{KEY, Options, WIRES, drain, model, model_with, texts};

fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

fn tool(name: &str) -> Arc<ToolDef> {
    Arc::new(ToolDef {
        name: name.to_owned(),
        description: "Looks something up.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}),
    })
}

#[tokio::test]
async fn text_comes_back_with_id_model_and_usage() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let usage = Usage { input: 120, output: 7, cache_read: 100, ..Usage::default() };
        provider.reply(Reply::text("Grüße 🦀").usage(usage).id("r-9").model("m-2"));
        let answer = complete(&model(wire, &provider), ask("Hi")).await.unwrap();
        assert_eq!(answer.message.text(), "Grüße 🦀");
        assert_eq!(answer.message.role, Role::Assistant);
        assert_eq!(answer.message.model.as_deref(), Some("m-2"));
        assert_eq!(answer.response_id.as_deref(), Some("r-9"));
        assert_eq!(answer.usage, usage, "{wire:?}");
        assert_eq!(answer.stop, StopReason::EndTurn);
        let request = &provider.requests()[0];
        assert_eq!(request.json()["stream"], json!(true));
        assert_eq!(request.header("accept"), Some("text/event-stream"));
        match wire {
            WireKind::OpenAiChat => {
                assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
                assert_eq!(request.json()["stream_options"], json!({"include_usage": true}));
            }
            WireKind::Anthropic => {
                assert_eq!(request.header("x-api-key"), Some(KEY));
                assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_tells_no_usage_is_not_one_that_used_nothing() {
    let provider = FakeProvider::start().await;
    provider.replies([Reply::text("x"), Reply::text("x").usage(Usage::default())]);
    let asked = model(WireKind::OpenAiChat, &provider);
    assert!(!complete(&asked, ask("Hi")).await.unwrap().usage_known);
    assert!(complete(&asked, ask("Hi")).await.unwrap().usage_known);
}

#[tokio::test]
async fn deltas_come_one_by_one_and_in_order() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let pieces: Vec<String> = (0..500).map(|n| format!("{n} \"ü\"\n")).collect();
        provider.reply(Reply::new().deltas(pieces.clone()).usage(Usage::new(1, 500)));
        let (events, failure) = drain(&model(wire, &provider), ask("Count")).await;
        assert_eq!(failure, None);
        assert_eq!(texts(&events), pieces);
        assert!(matches!(events[0], ModelEvent::Started { .. }));
        let stop = events.iter().position(|event| matches!(event, ModelEvent::Stop(_))).unwrap();
        let last_text =
            events.iter().rposition(|event| matches!(event, ModelEvent::Text(_))).unwrap();
        assert!(stop > last_text);
        assert!(events.contains(&ModelEvent::Usage(Usage::new(1, 500))));
    }
}

#[tokio::test]
async fn parallel_and_fragmented_calls_are_put_together() {
    for wire in WIRES {
        for fragment in [0, 1, 3, 1000] {
            let provider = FakeProvider::start().await;
            let arguments = json!({"q": "a \"quoted\" ü", "deep": {"list": [1, 2.5, null]}});
            let reply = Reply::text("Let me look.")
                .and_call("call_1", "search", &arguments)
                .and_call("call_2", "search", &json!({"q": "b"}))
                .raw_call("call_3", "now", "")
                .raw_call("call_4", "search", "{\"q\": oops")
                .fragment(fragment);
            provider.reply(reply);
            let answer = complete(&model(wire, &provider), ask("Look")).await.unwrap();
            assert_eq!(answer.stop, StopReason::ToolUse);
            assert_eq!(answer.message.text(), "Let me look.");
            let calls: Vec<&ToolCall> = answer.message.tool_calls().collect();
            let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(ids, ["call_1", "call_2", "call_3", "call_4"]);
            assert_eq!(calls[0].parse_arguments().unwrap(), arguments);
            assert_eq!(calls[1].parse_arguments().unwrap(), json!({"q": "b"}));
            assert_eq!(calls[2].parse_arguments().unwrap(), json!({}));
            assert_eq!(calls[3].arguments, "{\"q\": oops", "kept raw");
        }
    }
}

#[tokio::test]
async fn a_whole_tool_round_is_sent_as_the_vendor_wants_it() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::text("ok"));
        let broken =
            ToolCall { arguments: "{oops".to_owned(), ..ToolCall::new("c2", "search", &json!({})) };
        let call = ToolCall::new("c1", "search", &json!({"q": "x"}));
        let request = ChatRequest {
            system: Some("Be brief.".into()),
            tools: vec![tool("search")],
            ..ChatRequest::new([
                Message::summary("We talked."),
                Message::user("Look"),
                Message::calls([call.clone(), broken.clone()]),
                Message::results([ToolResult::text(&call, "found")]),
                Message::results([ToolResult::error(&broken, "not JSON")]),
                Message::user("And?"),
            ])
        };
        complete(&model(wire, &provider), request).await.unwrap();
        let body = &provider.bodies()[0];
        match wire {
            WireKind::OpenAiChat => insta::assert_json_snapshot!("openai_round", body),
            WireKind::Anthropic => insta::assert_json_snapshot!("anthropic_round", body),
        }
    }
}

#[tokio::test]
async fn images_and_documents_reach_the_model_also_from_tools() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::text("a crab"));
        let call = ToolCall::new("c1", "camera", &json!({}));
        let mut result = ToolResult::text(&call, "taken");
        result.parts.push(ResultPart::Image(Image::bytes("image/png", b"PNG")));
        result.parts.push(ResultPart::File(Document::bytes("r.pdf", "application/pdf", b"PDF")));
        let parts = vec![
            Part::text("What is this?"),
            Image::url("https://example.com/a.png").into(),
            Image::bytes("image/jpeg", b"JPEG").into(),
            Document::bytes("notes.txt", "text/plain", b"dear diary").into(),
            Document::bytes("a.pdf", "application/pdf", b"PDF").into(),
            Document::bytes("a.zip", "application/zip", b"ZIP").into(),
        ];
        let request = ChatRequest {
            tools: vec![tool("camera")],
            ..ChatRequest::new([
                Message::new(Role::User, parts, Timestamp::default()),
                Message::calls([call]),
                Message::results([result]),
            ])
        };
        complete(&model(wire, &provider), request).await.unwrap();
        let messages = &provider.bodies()[0]["messages"];
        match wire {
            WireKind::OpenAiChat => insta::assert_json_snapshot!("openai_media", messages),
            WireKind::Anthropic => insta::assert_json_snapshot!("anthropic_media", messages),
        }
    }
}

#[tokio::test]
async fn reasoning_comes_back_and_returns_byte_for_byte_to_its_own_provider_only() {
    let signature = "EqQB/+==\u{2028}\"sig\"";
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let first = Reply::new().reasoning("hm, ", signature).redacted("enc==").and_call(
            "c1",
            "search",
            &json!({"q": "x"}),
        );
        provider.replies([
            first.model("claude-haiku-4-5-20251001"),
            Reply::text("done"),
            Reply::text("done"),
        ]);
        let thinker = model(wire, &provider);
        let mut request = ask("Think");
        request.tools = vec![tool("search")];
        let answer = complete(&thinker, request.clone()).await.unwrap();
        let reasoning: Vec<_> = answer.message.reasoning().cloned().collect();
        assert_eq!(reasoning[0].text, "hm, ");
        let call = answer.message.tool_calls().next().unwrap().clone();
        let foreign = Part::Reasoning(provost_core::Reasoning {
            text: "foreign".to_owned(),
            opaque: Some(Opaque {
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
        let sent = provider.bodies()[1]["messages"][1].clone();
        match wire {
            WireKind::Anthropic => {
                assert_eq!(
                    sent["content"],
                    json!([
                        {"type": "thinking", "thinking": "hm, ", "signature": signature},
                        {"type": "redacted_thinking", "data": "enc=="},
                        {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}},
                    ])
                );
            }
            WireKind::OpenAiChat => {
                assert!(sent.get("reasoning_content").is_none(), "{sent}");
                let options = Options { replay_reasoning: true, ..Options::default() };
                complete(&model_with(wire, &provider, options), request).await.unwrap();
                assert_eq!(provider.bodies()[2]["messages"][1]["reasoning_content"], "foreignhm, ");
            }
        }
    }
}

#[tokio::test]
async fn every_stop_reason_is_told() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let asked = model(wire, &provider);
        for stop in [
            StopReason::EndTurn,
            StopReason::MaxTokens,
            StopReason::StopSequence,
            StopReason::Refusal,
            StopReason::ContentFilter,
            StopReason::ToolUse,
            StopReason::Unknown,
        ] {
            let reply = match stop {
                StopReason::ToolUse => Reply::call("c", "search", &json!({})),
                _ => Reply::text("x"),
            };
            provider.reply(reply.stop(stop));
            let answer = complete(&asked, ask("?")).await.unwrap();
            let expected = match (wire, stop) {
                // This vendor reports a filter as a refusal.
                (WireKind::Anthropic, StopReason::ContentFilter) => StopReason::Refusal,
                (_, stop) => stop,
            };
            assert_eq!(answer.stop, expected, "{wire:?}");
        }
    }
    let provider = FakeProvider::start().await;
    let asked = model(WireKind::Anthropic, &provider);
    for (word, stop) in [
        ("pause_turn", StopReason::Unknown),
        ("model_context_window_exceeded", StopReason::MaxTokens),
    ] {
        provider.reply(Reply::text("x").stop_word(word));
        assert_eq!(complete(&asked, ask("?")).await.unwrap().stop, stop);
    }
}

#[tokio::test]
async fn s225_tool_choice_is_mapped_and_left_out_without_tools() {
    let choice = ToolChoice::Tool("search".to_owned());
    for (wire, choice, expected) in [
        (WireKind::OpenAiChat, ToolChoice::Auto, None),
        (WireKind::OpenAiChat, ToolChoice::None, Some(json!("none"))),
        (WireKind::OpenAiChat, ToolChoice::Required, Some(json!("required"))),
        (
            WireKind::OpenAiChat,
            choice.clone(),
            Some(json!({"type": "function", "function": {"name": "search"}})),
        ),
        (WireKind::Anthropic, ToolChoice::Auto, None),
        (WireKind::Anthropic, ToolChoice::None, Some(json!({"type": "none"}))),
        (WireKind::Anthropic, ToolChoice::Required, Some(json!({"type": "any"}))),
        (WireKind::Anthropic, choice, Some(json!({"type": "tool", "name": "search"}))),
    ] {
        let provider = FakeProvider::start().await;
        provider.replies([Reply::text("x"), Reply::text("x")]);
        let asked = model(wire, &provider);
        let mut request = ask("?");
        request.tools = vec![tool("search")];
        request.tool_choice = choice.clone();
        complete(&asked, request.clone()).await.unwrap();
        assert_eq!(
            provider.bodies()[0].get("tool_choice"),
            expected.as_ref(),
            "{wire:?} {choice:?}"
        );
        request.tools.clear();
        if !matches!(choice, ToolChoice::Tool(_)) {
            complete(&asked, request).await.unwrap();
            assert_eq!(provider.bodies()[1].get("tool_choice"), None);
        }
    }
}

#[tokio::test]
async fn s225_a_choice_without_a_tool_is_refused_before_any_request() {
    for wire in WIRES {
        for name in ["", " ", "missing"] {
            let provider = FakeProvider::start().await;
            let mut request = ask("?");
            request.tools = vec![tool("search")];
            request.tool_choice = ToolChoice::Tool(name.to_owned());
            let (events, failure) = drain(&model(wire, &provider), request).await;
            assert!(events.is_empty());
            assert_eq!(failure.unwrap().class, provost_model::ModelErrorClass::InvalidRequest);
            assert_eq!(provider.connection_count(), 0);
        }
    }
}

#[tokio::test]
async fn s226_request_ids_and_rate_limits_are_told() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let id_header = if wire == WireKind::OpenAiChat { "x-request-id" } else { "request-id" };
        provider.reply(
            Reply::text("x")
                .header(id_header, "req_7")
                .header("x-ratelimit-remaining-tokens", "12"),
        );
        let answer = complete(&model(wire, &provider), ask("?")).await.unwrap();
        assert_eq!(answer.metadata["request_id"], "req_7");
        assert_eq!(answer.metadata["rate_limits"]["x-ratelimit-remaining-tokens"], "12");
    }
}

/// Of the vendors of this statement, those that speak this wire.
#[tokio::test]
async fn s227_fields_of_routing_and_search_are_sent_and_citations_are_kept() {
    let provider = FakeProvider::start().await;
    let chunk = json!({
        "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6},
        "citations": ["https://example.com/a"],
    });
    let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    provider.reply(Reply::fixed(200, "text/event-stream", body));
    let asked = openai_compatible("router", provider.base_url(), "m")
        .metadata_field("citations")
        .build()
        .unwrap();
    let mut request = ask("?");
    for (field, value) in [
        ("provider", json!({"order": ["a", "b"], "allow_fallbacks": false})),
        ("search_domain_filter", json!(["example.com"])),
    ] {
        request.settings.extra.insert(field.to_owned(), value);
    }
    let answer = complete(&asked, request).await.unwrap();
    let sent = &provider.bodies()[0];
    assert_eq!(sent["provider"], json!({"order": ["a", "b"], "allow_fallbacks": false}));
    assert_eq!(sent["search_domain_filter"], json!(["example.com"]));
    assert_eq!(answer.metadata["openai.citations"], json!(["https://example.com/a"]));
    let usage = Usage { input: 10, output: 5, cache_read: 6, ..Usage::default() };
    assert_eq!(answer.usage, usage, "hits of the vendor's cache count");
}

#[tokio::test]
async fn nothing_happens_before_the_stream_is_polled() {
    let provider = FakeProvider::start().await;
    drop(model(WireKind::OpenAiChat, &provider).stream(ask("?")));
    assert_eq!(provider.connection_count(), 0);
}
