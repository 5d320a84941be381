//! Content of requests and responses arrives complete and in order.

use std::sync::Arc;

use provost_core::{
    ContentPart, Document, Image, Message, Role, StopReason, Timestamp, ToolCall, ToolDefinition,
    ToolResult, ToolResultPart, Usage,
};
use provost_model::{ChatModel, ChatRequest, ModelEvent, complete};
use provost_provider::openai_compatible;
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::json;

use crate::harness::{KEY, WIRES, conversation, drain, model, short, texts};

pub(crate) fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

pub(crate) fn tool(name: &str) -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
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
        // One vendor sends neither, one sends no id, and one has no cache.
        let says_model = wire != WireKind::Bedrock;
        let says_id = !matches!(wire, WireKind::Ollama | WireKind::Bedrock);
        let usage = match wire {
            WireKind::Ollama => Usage { cache_read: 0, ..usage },
            _ => usage,
        };
        assert_eq!(answer.message.model.as_deref(), says_model.then_some("m-2"));
        assert_eq!(answer.response_id.as_deref(), says_id.then_some("r-9"));
        assert_eq!(answer.usage, usage, "{wire:?}");
        assert_eq!(answer.stop, StopReason::EndTurn);
        let request = &provider.requests()[0];
        let bearer = format!("Bearer {KEY}");
        let (accept, key) = match wire {
            WireKind::Ollama => ("application/x-ndjson", ("authorization", bearer.as_str())),
            WireKind::Bedrock => {
                ("application/vnd.amazon.eventstream", ("authorization", bearer.as_str()))
            }
            WireKind::Anthropic => ("text/event-stream", ("x-api-key", KEY)),
            WireKind::Gemini => ("text/event-stream", ("x-goog-api-key", KEY)),
            _ => ("text/event-stream", ("authorization", bearer.as_str())),
        };
        assert_eq!(request.header("accept"), Some(accept));
        assert_eq!(request.header(key.0), Some(key.1), "{wire:?}");
        match wire {
            WireKind::Gemini => {
                assert_eq!(request.path, "/v1/models/gemini-3-pro:streamGenerateContent");
                assert_eq!(request.query.as_deref(), Some("alt=sse"));
            }
            WireKind::Bedrock => {
                let model = "us.anthropic.claude-haiku-4-5-20251001-v1%3A0";
                assert_eq!(request.path, format!("/v1/model/{model}/converse-stream"));
            }
            _ => assert_eq!(request.json()["stream"], json!(true)),
        }
        if wire == WireKind::OpenAiChat {
            assert_eq!(request.json()["stream_options"], json!({"include_usage": true}));
        }
        if wire == WireKind::Anthropic {
            assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
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
                .fragment(fragment);
            // Two vendors send arguments as JSON and not as text, so they cannot be invalid.
            let is_text = !matches!(wire, WireKind::Gemini | WireKind::Ollama);
            let reply = match is_text {
                true => reply.raw_call("call_4", "search", "{\"q\": oops"),
                false => reply,
            };
            provider.reply(reply);
            let answer = complete(&model(wire, &provider), ask("Look")).await.unwrap();
            assert_eq!(answer.stop, StopReason::ToolUse);
            assert_eq!(answer.message.text(), "Let me look.");
            let calls: Vec<&ToolCall> = answer.message.tool_calls().collect();
            let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(
                ids,
                ["call_1", "call_2", "call_3", "call_4"][..if is_text { 4 } else { 3 }]
            );
            assert_eq!(calls[0].parse_arguments().unwrap(), arguments);
            assert_eq!(calls[1].parse_arguments().unwrap(), json!({"q": "b"}));
            assert_eq!(calls[2].parse_arguments().unwrap(), json!({}));
            if is_text {
                assert_eq!(calls[3].arguments, "{\"q\": oops", "kept raw");
            }
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
        insta::assert_json_snapshot!(format!("{}_round", short(wire)), body);
    }
}

#[tokio::test]
async fn images_and_documents_reach_the_model_also_from_tools() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::text("a crab"));
        let call = ToolCall::new("c1", "camera", &json!({}));
        let mut result = ToolResult::text(&call, "taken");
        result.parts.push(ToolResultPart::Image(Image::bytes("image/png", b"PNG")));
        result.parts.push(ToolResultPart::File(Document::bytes(
            "r.pdf",
            "application/pdf",
            b"PDF",
        )));
        let parts = vec![
            ContentPart::text("What is this?"),
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
        let bodies = provider.bodies();
        let messages = conversation(wire, &bodies[0]);
        insta::assert_json_snapshot!(format!("{}_media", short(wire)), messages);
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
                // One vendor reports a filter as a refusal, another a refusal as a filter.
                (WireKind::Anthropic, StopReason::ContentFilter) => StopReason::Refusal,
                (WireKind::Gemini, StopReason::Refusal) => StopReason::ContentFilter,
                // These vendors do not distinguish a stop sequence from an end. One knows neither refusals nor filters.
                (
                    WireKind::OpenAiResponses | WireKind::Gemini | WireKind::Ollama,
                    StopReason::StopSequence,
                )
                | (WireKind::Ollama, StopReason::Refusal | StopReason::ContentFilter) => {
                    StopReason::EndTurn
                }
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
        provider.reply(Reply::text("x").stop_reason_name(word));
        assert_eq!(complete(&asked, ask("?")).await.unwrap().stop, stop);
    }
}

#[tokio::test]
async fn s226_request_ids_and_rate_limits_are_told() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let id_header = match wire {
            WireKind::Anthropic => "request-id",
            WireKind::Bedrock => "x-amzn-requestid",
            _ => "x-request-id",
        };
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

/// Checks the vendors of this statement that use this wire.
#[tokio::test]
async fn s227_fields_of_routing_and_search_are_sent_and_citations_are_kept() {
    let provider = FakeProvider::start().await;
    let chunk = json!({
        "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 6},
        "citations": ["https://example.com/a"],
    });
    let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
    provider.reply(Reply::raw_response(200, "text/event-stream", body));
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
