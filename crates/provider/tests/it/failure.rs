//! Failures have the right class, are reported once and are retried only before the first delta.

use std::time::Duration;

use provost_core::Message;
use provost_model::{ChatModel, ChatRequest, ModelErrorClass as Class, ModelEvent, RetryPolicy};
use provost_provider::Timeouts;
use provost_testkit::{Failure, FakeProvider, Reply, WireKind};

use crate::harness::{KEY, Options, WIRES, drain, model, model_with, retries, texts};

fn ask() -> ChatRequest {
    ChatRequest::new([Message::user("my secret prompt")])
}

#[tokio::test]
async fn s243_every_failure_has_its_class_and_its_chance_of_a_retry() {
    for wire in WIRES {
        for (failure, class, tries) in [
            (Failure::Auth, Class::Auth, 1),
            (Failure::Quota, Class::QuotaExceeded, 1),
            (Failure::ContextLength, Class::ContextLength, 1),
            (Failure::ContentFilter, Class::ContentFilter, 1),
            (Failure::UnknownModel, Class::ModelNotFound, 1),
            (Failure::InvalidRequest, Class::InvalidRequest, 1),
            (Failure::ToolSchema, Class::InvalidRequest, 1),
            (Failure::RateLimited, Class::RateLimited, 5),
            (Failure::Overloaded, Class::Overloaded, 5),
            (Failure::Server, Class::Overloaded, 5),
        ] {
            let provider = FakeProvider::start().await;
            let reply = Reply::failure(failure).header("x-request-id", "req_5");
            provider.replies(vec![reply; tries]);
            let asked = model(wire, &provider);
            let (events, error) = drain(&asked, ask()).await;
            let error = error.unwrap();
            assert_eq!(error.class, class, "{wire:?} {failure:?}: {error}");
            assert!(error.status.is_some());
            assert_eq!(error.request_id.as_deref(), Some("req_5"));
            let told = error.to_string();
            let vendor = asked.info().provider.as_str();
            assert!(told.ends_with(&format!("[{vendor}, request req_5]")), "{told}");
            let status = format!("(status {})", error.status.unwrap());
            assert!(told.contains(&status) && told.contains(": "), "{told}");
            assert_eq!(provider.request_count(), tries, "{wire:?} {failure:?}");
            assert_eq!(retries(&events).len(), tries - 1);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(KEY) && !shown.contains("secret prompt"), "{shown}");
        }
    }
}

#[tokio::test]
async fn s243_retry_after_is_honoured_and_the_retry_is_told() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.replies([
            Reply::failure(Failure::RateLimited).header("retry-after-ms", "30"),
            Reply::failure(Failure::Overloaded).header("retry-after", "0"),
            Reply::text("at last"),
        ]);
        let (events, failure) = drain(&model(wire, &provider), ask()).await;
        assert_eq!(failure, None);
        assert_eq!(texts(&events), ["at last"]);
        let retries = retries(&events);
        assert_eq!(retries[0].0, 1);
        assert!(
            retries[0].1 >= Duration::from_millis(30) && retries[0].1 <= Duration::from_millis(33)
        );
        assert_eq!(retries[1], (2, Duration::ZERO));
        let ModelEvent::Retry { error, .. } = &events[0] else { panic!("{events:?}") };
        assert_eq!(error.class, Class::RateLimited);
        assert_eq!(error.retry_after, Some(Duration::from_millis(30)));
    }
}

#[tokio::test]
async fn a_wait_that_is_asked_too_long_fails_at_once() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::failure(Failure::RateLimited).header("retry-after", "3600"));
        let error = drain(&model(wire, &provider), ask()).await.1.unwrap();
        assert_eq!(error.retry_after, Some(Duration::from_secs(3600)));
        assert_eq!(provider.request_count(), 1);
    }
}

#[tokio::test]
async fn s243_a_stream_that_breaks_before_its_first_delta_is_tried_again() {
    for wire in WIRES {
        for broken in [
            Reply::new().drop_connection(),
            Reply::new().omit_final_frame(),
            Reply::reset(),
            Reply::new().fail_midway(Failure::Overloaded),
        ] {
            let provider = FakeProvider::start().await;
            provider.replies([broken.clone(), Reply::text("whole")]);
            let (events, failure) = drain(&model(wire, &provider), ask()).await;
            assert_eq!(failure, None, "{wire:?} {broken:?}");
            assert_eq!(texts(&events), ["whole"]);
            assert_eq!(retries(&events).len(), 1);
        }
    }
}

#[tokio::test]
async fn s243_nothing_is_tried_again_after_the_first_delta() {
    for wire in WIRES {
        let name = "contentBlockDelta";
        let broken_json = wire.event(name, b"{\"choices\": [{");
        let bad_type = wire.event(name, bad_type(wire));
        let bad_text = wire.event(name, bad_text(wire));
        for (broken, class) in [
            (Reply::text("half").drop_connection(), Class::Transport),
            (Reply::text("half").omit_final_frame(), Class::StreamTruncated),
            (Reply::text("half").fail_midway(Failure::Overloaded), Class::Overloaded),
            (Reply::text("half").fail_midway(Failure::RateLimited), Class::RateLimited),
            (Reply::text("half").raw(broken_json).omit_final_frame(), Class::Malformed),
            (Reply::text("half").raw(bad_type).omit_final_frame(), Class::Malformed),
            (Reply::text("half").raw(bad_text).omit_final_frame(), Class::Malformed),
            (
                Reply::call("c", "search", &serde_json::json!({"q": 1})).drop_connection(),
                Class::Transport,
            ),
        ] {
            let provider = FakeProvider::start().await;
            provider.replies([broken.clone(), Reply::text("again")]);
            let (events, failure) = drain(&model(wire, &provider), ask()).await;
            assert_eq!(failure.unwrap().class, class, "{wire:?} {broken:?}");
            assert!(retries(&events).is_empty());
            assert_eq!(provider.request_count(), 1, "{wire:?} {broken:?}");
            if !broken_is_call(&events) {
                assert_eq!(texts(&events), ["half"], "{wire:?} {broken:?}");
            }
        }
    }
}

/// Returns JSON with a type that the vendor does not use.
fn bad_type(wire: WireKind) -> &'static [u8] {
    match wire {
        WireKind::OpenAiChat => b"{\"choices\": \"none\"}",
        WireKind::OpenAiResponses | WireKind::Anthropic => b"{\"type\": 7}",
        WireKind::Gemini => b"{\"candidates\": \"none\"}",
        WireKind::Ollama => b"{\"message\": 7}",
        WireKind::Bedrock => b"{\"delta\": 7}",
    }
}

/// Returns bytes that are not valid text.
fn bad_text(wire: WireKind) -> &'static [u8] {
    match wire {
        WireKind::OpenAiChat => b"{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
        WireKind::OpenAiResponses => {
            b"{\"type\":\"response.output_text.delta\",\"delta\":\"\xff\"}"
        }
        WireKind::Anthropic => b"{\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\xff\"}}",
        WireKind::Gemini => b"{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\xff\"}]}}]}",
        WireKind::Ollama => b"{\"message\":{\"content\":\"\xff\"}}",
        WireKind::Bedrock => b"{\"delta\":{\"text\":\"\xff\"}}",
    }
}

fn broken_is_call(events: &[ModelEvent]) -> bool {
    events.iter().any(|event| matches!(event, ModelEvent::ToolCallStart { .. }))
}

#[tokio::test]
async fn an_answer_that_is_whole_survives_a_late_break() {
    let provider = FakeProvider::start().await;
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    provider.reply(Reply::text("whole").raw(finish).drop_connection());
    let (events, failure) = drain(&model(WireKind::OpenAiChat, &provider), ask()).await;
    assert_eq!(failure, None);
    assert_eq!(texts(&events), ["whole"]);
}

#[tokio::test]
async fn s226_a_stream_without_choices_is_exactly_one_error() {
    let provider = FakeProvider::start().await;
    let empty = "data: {\"id\":\"x\",\"choices\":[]}\n\ndata: [DONE]\n\n";
    provider.reply(Reply::raw_response(200, "text/event-stream", empty));
    let (events, failure) = drain(&model(WireKind::OpenAiChat, &provider), ask()).await;
    assert_eq!(failure.unwrap().class, Class::Malformed);
    assert_eq!(texts(&events).len(), 0);
    assert_eq!(provider.request_count(), 1);
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_told() {
    for wire in WIRES {
        for (reply, class, part) in [
            (
                Reply::raw_response(200, "text/html", "<html>portal</html>"),
                Class::Malformed,
                "base URL",
            ),
            (
                Reply::raw_response(200, "application/json", "{\"choices\":[]}"),
                Class::Malformed,
                "base URL",
            ),
            (
                Reply::raw_response(
                    200,
                    "application/json",
                    "{\"error\":{\"message\":\"no\",\"type\":\"invalid_request_error\"}}",
                ),
                Class::InvalidRequest,
                "no",
            ),
            (
                Reply::raw_response(404, "text/plain", "404 page not found"),
                Class::InvalidRequest,
                "base URL",
            ),
            (
                Reply::raw_response(307, "text/plain", "")
                    .header("location", "https://evil.example/v1"),
                Class::InvalidRequest,
                "evil.example",
            ),
        ] {
            let provider = FakeProvider::start().await;
            provider.reply(reply.clone());
            let error = drain(&model(wire, &provider), ask()).await.1.unwrap();
            assert_eq!(error.class, class, "{reply:?}");
            assert!(error.message.contains(part), "{}", error.message);
            assert_eq!(provider.request_count(), 1);
        }
    }
}

#[tokio::test]
async fn an_endless_error_body_and_an_echoed_key_do_no_harm() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let body = format!("the key {KEY} is wrong. {}", "x".repeat(1_000_000));
        provider.reply(Reply::raw_response(401, "text/plain", body).hang_midway());
        let error = drain(&model(wire, &provider), ask()).await.1.unwrap();
        assert_eq!(error.class, Class::Auth);
        assert!(error.message.contains("the key *** is wrong"), "{}", error.message);
        assert!(error.message.len() < 1000);

        let echo = format!("{{\"type\":\"error\",\"error\":{{\"message\":\"{KEY}\"}}}}");
        let echo = wire.event("modelStreamErrorException", echo.as_bytes());
        provider.reply(Reply::text("half").raw(echo).omit_final_frame());
        let error = drain(&model(wire, &provider), ask()).await.1.unwrap();
        assert!(error.message.ends_with(": ***"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_wait_beyond_all_reason_is_an_error_and_no_panic() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let wait = "18000000000000000000";
        provider.reply(Reply::failure(Failure::RateLimited).header("retry-after", wait));
        let error = drain(&model(wire, &provider), ask()).await.1.unwrap();
        assert_eq!(error.class, Class::RateLimited);
        assert_eq!(provider.request_count(), 1);
    }
}

#[tokio::test]
async fn a_stage_without_a_limit_is_one() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::text("x"));
        let timeouts = Timeouts {
            connect: Duration::MAX,
            first_byte: Duration::MAX,
            idle: Duration::MAX,
            total: Some(Duration::MAX),
        };
        let options = Options { timeouts, ..Options::default() };
        let (events, failure) = drain(&model_with(wire, &provider, options), ask()).await;
        assert_eq!((texts(&events), failure), (vec!["x"], None));
    }
}

#[tokio::test]
async fn the_values_of_ones_own_headers_are_hidden_in_errors() {
    let provider = FakeProvider::start().await;
    let body = "token tok-hunter3 and proxy Basic aHVudGVyNA== (aHVudGVyNA==) are wrong: flag 1";
    provider.reply(Reply::raw_response(401, "text/plain", body));
    let model = provost_provider::OpenAi::builder("gpt-5.1")
        .api_key(KEY)
        .base_url(provider.base_url())
        .header("x-gateway-token", "tok-hunter3")
        .header("proxy-authorization", "Basic aHVudGVyNA==")
        .header("x-flag", "1")
        .build()
        .unwrap();
    let error = drain(&model, ask()).await.1.unwrap();
    let hidden = "token *** and proxy *** (***) are wrong: flag 1";
    assert!(error.message.ends_with(hidden), "{}", error.message);
    assert!(!format!("{error:?}").contains("hunter3"));
}

#[tokio::test]
async fn silence_ends_in_a_timeout_wherever_it_begins() {
    let short = Duration::from_millis(300);
    for wire in WIRES {
        for (reply, timeouts, part, deltas) in [
            (
                Reply::never_respond(),
                Timeouts { first_byte: short, ..Timeouts::default() },
                "first-byte",
                0,
            ),
            (
                Reply::new().hang_midway(),
                Timeouts { idle: short, ..Timeouts::default() },
                "idle",
                0,
            ),
            (
                Reply::text("half").hang_midway(),
                Timeouts { idle: short, ..Timeouts::default() },
                "idle",
                1,
            ),
            (
                Reply::text("half").hang_midway(),
                Timeouts { total: Some(short), ..Timeouts::default() },
                "deadline",
                1,
            ),
            (
                Reply::never_respond(),
                Timeouts { total: Some(short), ..Timeouts::default() },
                "deadline",
                0,
            ),
        ] {
            let provider = FakeProvider::start().await;
            provider.reply(reply.clone());
            let options = Options { timeouts, retry: RetryPolicy::never(), ..Options::default() };
            let (events, error) = drain(&model_with(wire, &provider, options), ask()).await;
            let error = error.unwrap();
            assert_eq!(error.class, Class::Timeout, "{wire:?} {reply:?}");
            assert!(error.message.contains(part), "{}", error.message);
            assert_eq!(texts(&events).len(), deltas);
        }
    }
}

#[tokio::test]
async fn a_slow_but_steady_stream_is_no_timeout() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let slow = Reply::new().deltas(["a", "b", "c", "d", "e", "f", "g", "h"]);
        provider.reply(slow.chunk_delay(Duration::from_millis(20)));
        let timeouts = Timeouts { idle: Duration::from_millis(150), ..Timeouts::default() };
        let options = Options { timeouts, ..Options::default() };
        let (events, failure) = drain(&model_with(wire, &provider, options), ask()).await;
        assert_eq!(failure, None);
        assert_eq!(texts(&events).concat(), "abcdefgh");
    }
}

#[tokio::test]
async fn a_deadline_holds_for_the_call_with_all_its_retries() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        provider.reply(Reply::failure(Failure::Overloaded).header("retry-after", "5"));
        let mut request = ask();
        request.deadline = Some(tokio::time::Instant::now() + Duration::from_secs(2));
        let error = drain(&model(wire, &provider), request).await.1.unwrap();
        assert_eq!(error.class, Class::Overloaded, "the cause is kept, and nobody waited");
        assert_eq!(provider.request_count(), 1);

        let mut request = ask();
        request.deadline = Some(tokio::time::Instant::now());
        let error = drain(&model(wire, &provider), request).await.1.unwrap();
        assert_eq!(error.class, Class::Timeout);
        assert_eq!(provider.request_count(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let options =
            Options { base_url: Some(format!("http://{address}/v1")), ..Options::default() };
        let (events, error) = drain(&model_with(wire, &provider, options), ask()).await;
        let error = error.unwrap();
        assert_eq!(error.class, Class::Transport);
        assert!(error.message.contains(&address.to_string()), "{}", error.message);
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(retries(&events).len(), 4);
    }
}
