//! Runs the wires against an independent mock of the vendors' APIs. `scripts/conformance aimock` starts the mock;
//! without it these tests check nothing.

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Message, StopReason, ToolResult};
use provost_model::{ModelErrorClass as Class, ModelEvent, RetryPolicy, complete};
use provost_provider::HttpModel;
use provost_testkit::WireKind;
use serde_json::json;

use crate::content::{ask, tool};
use crate::harness::{Options, WIRES, drain, model_at, retries, short, texts};

/// Variable with the address of the mock.
const VARIABLE: &str = "PROVOST_AIMOCK";

fn asked(wire: WireKind, mut options: Options) -> Option<HttpModel> {
    // The mock treats every entry of the tool list as a tool, including the vendor's cache marker.
    options.prompt_cache = false;
    let url = std::env::var(VARIABLE).ok()?;
    let base = match wire {
        WireKind::Gemini => format!("{url}/v1beta"),
        WireKind::Ollama | WireKind::Bedrock => url,
        _ => format!("{url}/v1"),
    };
    Some(model_at(wire, &base, options))
}

fn once() -> Options {
    Options { retry: RetryPolicy::never(), ..Options::default() }
}

fn chaos(name: &'static str) -> Options {
    Options { headers: vec![(name, "1")], ..once() }
}

#[tokio::test]
async fn the_matrix_against_the_mock() {
    if std::env::var(VARIABLE).is_err() {
        return;
    }
    for wire in WIRES {
        let found = [
            ("text", text(wire).await),
            ("tools", tools(wire).await),
            ("thoughts", thoughts(wire).await),
            ("errors", errors(wire).await),
            ("cut", cut(wire).await),
            ("faults", faults(wire).await),
        ];
        print!("{:<11}", short(wire));
        for (name, holds) in found {
            print!("{name}: {:<8}", if holds { "ok" } else { "-" });
        }
        println!();
    }
}

async fn text(wire: WireKind) -> bool {
    let model = asked(wire, once()).unwrap();
    let (events, failure) = drain(&model, ask("say hello")).await;
    assert_eq!(failure, None, "{wire:?}");
    let pieces = texts(&events);
    assert_eq!(pieces.concat(), "Hello from the mock, in several pieces of text.", "{wire:?}");
    assert!(pieces.len() > 1, "{wire:?}: it was streamed");
    assert!(events.contains(&ModelEvent::Stop(StopReason::EndTurn)), "{wire:?} {events:?}");
    true
}

async fn tools(wire: WireKind) -> bool {
    let model = asked(wire, once()).unwrap();
    let mut request = ask("two calls");
    request.tools = vec![tool("search")];
    let answer = complete(&model, request.clone()).await.unwrap();
    let mut message = answer.message.clone();
    assert_eq!(answer.stop, StopReason::ToolUse, "{wire:?}");
    let arguments: Vec<_> =
        message.tool_calls().map(|call| call.parse_arguments().unwrap()).collect();
    assert_eq!(arguments, [json!({"q": "a"}), json!({"q": "b"})], "{wire:?}");
    // A run assigns ids for vendors that send none.
    for (place, part) in message.parts.iter_mut().enumerate() {
        if let provost_core::ContentPart::ToolCall(call) = part
            && call.id.is_empty()
        {
            call.id = format!("call_{place}");
        }
    }
    let results = message.tool_calls().map(|call| ToolResult::text(call, "found"));
    let results = Message::results(results.collect::<Vec<_>>());
    request.messages.push(Arc::new(message));
    request.messages.push(Arc::new(results));
    let answer = complete(&model, request).await.unwrap();
    assert_eq!(answer.message.text(), "Both were found.", "{wire:?}");
    true
}

async fn thoughts(wire: WireKind) -> bool {
    let model = asked(wire, once()).unwrap();
    let answer = complete(&model, ask("think")).await.unwrap();
    assert_eq!(answer.message.text(), "Done.", "{wire:?}");
    let thought: String = answer.message.reasoning().map(|thought| thought.text.as_str()).collect();
    assert!(thought.is_empty() || thought == "First this, then that.", "{wire:?} {thought}");
    !thought.is_empty()
}

async fn errors(wire: WireKind) -> bool {
    let model = asked(wire, once()).unwrap();
    for (prompt, class) in
        [("be slow", Class::RateLimited), ("bad key", Class::Auth), ("broken", Class::Overloaded)]
    {
        let error = drain(&model, ask(prompt)).await.1.unwrap();
        assert_eq!(error.class, class, "{wire:?} {prompt}: {error}");
        assert!(error.request_id.is_some(), "{wire:?} {prompt}");
    }
    let slow = drain(&model, ask("be slow")).await.1.unwrap();
    assert_eq!(slow.retry_after, Some(Duration::from_secs(1)), "{wire:?}");
    true
}

async fn cut(wire: WireKind) -> bool {
    let model = asked(wire, once()).unwrap();
    let (events, failure) = drain(&model, ask("cut off")).await;
    let class = failure.map(|error| error.class);
    assert!(
        matches!(class, Some(Class::Transport | Class::StreamTruncated)),
        "{wire:?} {class:?} {events:?}"
    );
    true
}

/// Checks the faults that the mock injects.
async fn faults(wire: WireKind) -> bool {
    for (fault, classes) in [
        ("x-aimock-chaos-drop", &[Class::Overloaded][..]),
        ("x-aimock-chaos-ratelimit", &[Class::RateLimited]),
        ("x-aimock-chaos-disconnect", &[Class::Transport, Class::StreamTruncated]),
        ("x-aimock-chaos-malformed", &[Class::Malformed]),
    ] {
        let model = asked(wire, chaos(fault)).unwrap();
        let (events, failure) = drain(&model, ask("say hello")).await;
        let failure = failure.unwrap_or_else(|| panic!("{wire:?} {fault}: {events:?}"));
        assert!(classes.contains(&failure.class), "{wire:?} {fault}: {failure}");
    }
    let options = Options {
        retry: RetryPolicy {
            base: Duration::from_millis(1),
            max_retries: 2,
            ..RetryPolicy::default()
        },
        headers: vec![("x-aimock-chaos-drop", "1")],
        ..Options::default()
    };
    let (events, failure) = drain(&asked(wire, options).unwrap(), ask("say hello")).await;
    assert!(failure.is_some() && retries(&events).len() == 2, "{wire:?}");
    true
}
