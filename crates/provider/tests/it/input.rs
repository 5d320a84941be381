//! Invalid input from servers results in one error with a class and never in a wrong response.

use std::time::Duration;

use provost_model::{ModelErrorClass as Class, RetryPolicy, complete};
use provost_provider::Timeouts;
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::json;

use crate::content::{ask, tool};
use crate::harness::{Options, WIRES, drain, model, model_with, texts};

fn once() -> Options {
    Options { retry: RetryPolicy::never(), ..Options::default() }
}

/// Returns a complete response as bytes.
fn answer_bytes(wire: WireKind, text: &str) -> Vec<u8> {
    Reply::text(text).render(wire).concat()
}

#[tokio::test]
async fn half_a_character_at_the_border_of_a_chunk_is_put_together() {
    let text = "Grüße 🦀 ü";
    for wire in WIRES {
        let bytes = answer_bytes(wire, text);
        // Each byte arrives alone, so every character is split at every position.
        let reply = bytes.iter().fold(Reply::new(), |reply, byte| reply.raw(vec![*byte]));
        let provider = FakeProvider::start().await;
        provider.reply(reply.only_raw());
        let answer = complete(&model(wire, &provider), ask("?")).await.unwrap();
        assert_eq!(answer.message.text(), text, "{wire:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_holds_everything_back_changes_nothing() {
    for wire in WIRES {
        let bytes = answer_bytes(wire, "all at once");
        let provider = FakeProvider::start().await;
        provider.reply(Reply::new().raw(bytes).only_raw());
        let (events, failure) = drain(&model(wire, &provider), ask("?")).await;
        assert_eq!((texts(&events).concat().as_str(), failure), ("all at once", None), "{wire:?}");
    }
}

#[tokio::test]
async fn a_flood_of_comments_ends_in_an_error() {
    for wire in
        [WireKind::OpenAiChat, WireKind::OpenAiResponses, WireKind::Anthropic, WireKind::Gemini]
    {
        let provider = FakeProvider::start().await;
        let flood = ": still here\n\n".repeat(100_000);
        provider.reply(Reply::new().raw(flood).only_raw().hang_midway());
        let error = drain(&model_with(wire, &provider, once()), ask("?")).await.1.unwrap();
        assert_eq!(error.class, Class::Malformed, "{wire:?}");
        assert!(error.message.contains("comments"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_never_ends_is_ended() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let endless = Reply::new()
            .deltas(vec!["again "; 2000])
            .chunk_delay(Duration::from_millis(5))
            .hang_midway();
        provider.reply(endless);
        let timeouts = Timeouts { total: Some(Duration::from_millis(300)), ..Timeouts::default() };
        let options = Options { timeouts, ..once() };
        let error = drain(&model_with(wire, &provider, options), ask("?")).await.1;
        assert_eq!(error.unwrap().class, Class::Timeout, "{wire:?}");
    }
}

#[tokio::test]
async fn one_event_without_an_end_is_not_kept() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let piece = vec![b'x'; 1024 * 1024];
        let reply = (0..10).fold(Reply::new().raw("data: "), |reply, _| reply.raw(piece.clone()));
        provider.reply(reply.only_raw().hang_midway());
        let error = drain(&model_with(wire, &provider, once()), ask("?")).await.1.unwrap();
        assert_eq!(error.class, Class::Malformed, "{wire:?} {error}");
    }
}

#[tokio::test]
async fn calls_with_the_same_id_and_without_one_stay_apart() {
    for wire in WIRES {
        let provider = FakeProvider::start().await;
        let reply = Reply::call("same", "search", &json!({"q": 1}))
            .and_call("same", "search", &json!({"q": 2}))
            .and_call("", "search", &json!({"q": 3}));
        provider.replies([reply, Reply::text("ok")]);
        let mut request = ask("?");
        request.tools = vec![tool("search")];
        let asked = model(wire, &provider);
        let answer = complete(&asked, request.clone()).await.unwrap();
        let arguments: Vec<_> =
            answer.message.tool_calls().map(|call| call.arguments.clone()).collect();
        let apart = [r#"{"q":1}"#, r#"{"q":2}"#, r#"{"q":3}"#];
        assert_eq!(arguments, apart, "{wire:?}");
        request.messages.push(std::sync::Arc::new(answer.message));
        complete(&asked, request).await.unwrap();
        let body = provider.bodies()[1].to_string();
        assert_eq!(body.matches("No result:").count(), 3, "{wire:?} {body}");
        assert!(!body.contains("\"\",\"name\":\"search\""), "{wire:?}: no empty id: {body}");
    }
}

#[tokio::test]
async fn a_web_page_with_a_status_is_told_by_its_title() {
    for wire in WIRES {
        let page = "<!doctype html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
        let provider = FakeProvider::start().await;
        provider.reply(Reply::raw_response(502, "text/html", page));
        let error = drain(&model_with(wire, &provider, once()), ask("?")).await.1.unwrap();
        assert_eq!((error.class, error.status), (Class::Overloaded, Some(502)), "{wire:?}");
        assert!(error.message.contains("502 Bad Gateway"), "{error}");
        assert!(!error.message.contains("nginx"), "{error}");
    }
}
