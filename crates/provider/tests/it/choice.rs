//! Tool choices: tools that a model may, must or must not call.

use provost_model::{ToolChoice, complete};
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::json;

use crate::content::{ask, tool};
use crate::harness::{WIRES, drain, model};

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
        (WireKind::Anthropic, choice.clone(), Some(json!({"type": "tool", "name": "search"}))),
        (WireKind::OpenAiResponses, ToolChoice::Auto, None),
        (WireKind::OpenAiResponses, ToolChoice::None, Some(json!("none"))),
        (WireKind::OpenAiResponses, ToolChoice::Required, Some(json!("required"))),
        (
            WireKind::OpenAiResponses,
            choice.clone(),
            Some(json!({"type": "function", "name": "search"})),
        ),
        (WireKind::Gemini, ToolChoice::Auto, None),
        (WireKind::Gemini, ToolChoice::None, Some(json!({"mode": "NONE"}))),
        (WireKind::Gemini, ToolChoice::Required, Some(json!({"mode": "ANY"}))),
        (
            WireKind::Gemini,
            choice.clone(),
            Some(json!({"mode": "ANY", "allowedFunctionNames": ["search"]})),
        ),
        (WireKind::Bedrock, ToolChoice::Auto, None),
        (WireKind::Bedrock, ToolChoice::Required, Some(json!({"any": {}}))),
        (WireKind::Bedrock, choice, Some(json!({"tool": {"name": "search"}}))),
    ] {
        let provider = FakeProvider::start().await;
        provider.replies([Reply::text("x"), Reply::text("x")]);
        let asked = model(wire, &provider);
        let mut request = ask("?");
        request.tools = vec![tool("search")];
        request.tool_choice = choice.clone();
        complete(&asked, request.clone()).await.unwrap();
        let place = match wire {
            WireKind::Gemini => "/toolConfig/functionCallingConfig",
            WireKind::Bedrock => "/toolConfig/toolChoice",
            _ => "/tool_choice",
        };
        let bodies = provider.bodies();
        assert_eq!(bodies[0].pointer(place), expected.as_ref(), "{wire:?} {choice:?}");
        request.tools.clear();
        if !matches!(choice, ToolChoice::Tool(_)) {
            complete(&asked, request).await.unwrap();
            assert_eq!(provider.bodies()[1].pointer(place), None);
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
