//! Capabilities of each wire, checked and printed as a table.

use std::sync::Arc;

use provost_core::{
    ContentPart, Document, Image, Message, Role, StopReason, Timestamp, ToolCall, ToolResult,
    ToolResultPart, Usage,
};
use provost_model::{ChatRequest, ModelErrorClass, OutputSchema, ReasoningEffort, complete};
use provost_testkit::{Failure, FakeProvider, Reply, WireKind};
use serde_json::json;

use crate::content::{ask, tool};
use crate::harness::{WIRES, conversation, drain, model, short, texts};

/// Result of a check.
type Found = Result<&'static str, String>;

const CHECKS: [&str; 14] = [
    "streamed text",
    "parallel calls",
    "tool round",
    "tool alias",
    "images",
    "images in results",
    "documents",
    "schema of answer",
    "effort",
    "reasoning replay",
    "cache marks",
    "cached tokens",
    "usage when cut",
    "typed errors",
];

#[tokio::test]
async fn the_matrix_of_wires() {
    let mut broken = Vec::new();
    print!("\n{:<20}", "");
    for wire in WIRES {
        print!("{:<13}", short(wire));
    }
    println!();
    for check in CHECKS {
        print!("{check:<20}");
        for wire in WIRES {
            match run(check, wire).await {
                Ok(found) => print!("{found:<13}"),
                Err(why) => {
                    print!("{:<13}", "BROKEN");
                    broken.push(format!("{check}, {wire:?}: {why}"));
                }
            }
        }
        println!();
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn when(holds: bool, shown: impl FnOnce() -> String) -> Found {
    if holds { Ok("yes") } else { Err(shown()) }
}

async fn run(check: &str, wire: WireKind) -> Found {
    match check {
        "streamed text" => {
            let (events, _) = play(wire, Reply::new().deltas(["a", "b", "c"])).await;
            when(texts(&events) == ["a", "b", "c"], || format!("{events:?}"))
        }
        "parallel calls" => {
            let reply = Reply::call("c1", "search", &json!({"q": 1})).and_call(
                "c2",
                "search",
                &json!({"q": 2}),
            );
            let provider = FakeProvider::start().await;
            provider.reply(reply);
            let answer = complete(&model(wire, &provider), offering("search")).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let count = answer.message.tool_calls().count();
            when(count == 2 && answer.stop == StopReason::ToolUse, || format!("{answer:?}"))
        }
        "tool round" => {
            let body = sent(wire, round(ToolResult::text(&call(), "found"))).await;
            when(body.contains("found") && body.contains("c1"), || body)
        }
        "tool alias" => alias(wire).await,
        "images" => {
            let image = Image::bytes("image/png", b"PNG").into();
            let body = sent(wire, saying(vec![ContentPart::text("look"), image])).await;
            when(body.contains("UE5H"), || body)
        }
        "images in results" => {
            let mut result = ToolResult::text(&call(), "found");
            result.parts.push(ToolResultPart::Image(Image::bytes("image/png", b"PNG")));
            let body = sent(wire, round(result)).await;
            when(body.contains("UE5H"), || body)
        }
        "documents" => {
            let pdf = Document::bytes("a.pdf", "application/pdf", b"PDF").into();
            let text = Document::bytes("a.txt", "text/plain", b"dear diary").into();
            let body = sent(wire, saying(vec![pdf, text])).await;
            match (body.contains("UERG"), body.contains("diary") || body.contains("ZGVhciBkaWFyeQ"))
            {
                (true, true) => Ok("yes"),
                (false, true) if wire == WireKind::Ollama => Ok("text only"),
                _ => Err(body),
            }
        }
        _ => run_rest(check, wire).await,
    }
}

async fn run_rest(check: &str, wire: WireKind) -> Found {
    match check {
        "schema of answer" => schema(wire).await,
        "effort" => effort(wire).await,
        "reasoning replay" => replay(wire).await,
        "cache marks" => {
            let mut request = ask("hi");
            request.system = Some("sys".into());
            let body = sent(wire, request).await;
            let marked = body.contains("cache_control") || body.contains("cachePoint");
            let expected = matches!(wire, WireKind::Anthropic | WireKind::Bedrock);
            match (marked, expected) {
                (true, true) => Ok("yes"),
                (false, false) => Ok("-"),
                _ => Err(body),
            }
        }
        "cached tokens" => {
            let usage = Usage { input: 10, output: 2, cache_read: 8, ..Usage::default() };
            let provider = FakeProvider::start().await;
            provider.reply(Reply::text("x").usage(usage));
            let answer = complete(&model(wire, &provider), ask("?")).await;
            let counted = answer.map_err(|error| error.to_string())?.usage;
            match (counted == usage, wire) {
                (true, _) => Ok("yes"),
                (false, WireKind::Ollama) if counted == Usage::new(10, 2) => Ok("-"),
                _ => Err(format!("{counted:?}")),
            }
        }
        "usage when cut" => cut(wire).await,
        _ => {
            let provider = FakeProvider::start().await;
            provider.reply(Reply::failure(Failure::ContextLength));
            let error = drain(&model(wire, &provider), ask("?")).await.1;
            let class = error.as_ref().map(|error| error.class);
            when(class == Some(ModelErrorClass::ContextLength), || format!("{error:?}"))
        }
    }
}

fn call() -> ToolCall {
    ToolCall::new("c1", "search", &json!({"q": "x"}))
}

fn round(result: ToolResult) -> ChatRequest {
    let messages = [Message::user("look"), Message::calls([call()]), Message::results([result])];
    ChatRequest { tools: vec![tool("search")], ..ChatRequest::new(messages) }
}

fn saying(parts: Vec<ContentPart>) -> ChatRequest {
    ChatRequest::new([Message::new(Role::User, parts, Timestamp::default())])
}

fn offering(name: &str) -> ChatRequest {
    ChatRequest { tools: vec![tool(name)], ..ask("look") }
}

async fn play(
    wire: WireKind,
    reply: Reply,
) -> (Vec<provost_model::ModelEvent>, Option<provost_model::ModelError>) {
    let provider = FakeProvider::start().await;
    provider.reply(reply);
    drain(&model(wire, &provider), ask("hi")).await
}

/// Returns the body of the request that a model receives.
async fn sent(wire: WireKind, request: ChatRequest) -> String {
    let provider = FakeProvider::start().await;
    provider.reply(Reply::text("ok"));
    match complete(&model(wire, &provider), request).await {
        Ok(_) => provider.bodies()[0].to_string(),
        Err(error) => error.to_string(),
    }
}

/// Checks that a tool name which the vendor rejects is replaced in the request and restored in the response.
async fn alias(wire: WireKind) -> Found {
    let provider = FakeProvider::answering(|request| {
        let body = request.json().to_string();
        let name = ["memory/read", "memory_read"].iter().find(|name| body.contains(*name));
        Reply::call("c", *name.unwrap_or(&"?"), &json!({}))
    })
    .await;
    let answer = complete(&model(wire, &provider), offering("memory/read")).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let name = answer.message.tool_calls().next().map(|call| call.name.clone());
    let raw = provider.bodies()[0].to_string().contains("memory/read");
    match (name.as_deref(), raw, wire) {
        (Some("memory/read"), false, _) => Ok("yes"),
        (Some("memory/read"), true, WireKind::Ollama) => Ok("any name"),
        _ => Err(format!("{name:?}, raw: {raw}")),
    }
}

async fn schema(wire: WireKind) -> Found {
    let mut request = ask("?");
    request.output = Some(Arc::new(OutputSchema {
        name: "answer".to_owned(),
        description: None,
        schema: json!({"type": "object", "properties": {"magic_number": {"type": "integer"}}}),
    }));
    let provider = FakeProvider::start().await;
    provider.reply(Reply::text("{}"));
    let asked = crate::harness::held_to_schemas(wire, &provider);
    complete(&asked, request).await.map_err(|error| error.to_string())?;
    let body = &provider.bodies()[0];
    let native = [
        "/response_format",
        "/text/format",
        "/output_config/format",
        "/format",
        "/generationConfig/responseJsonSchema",
    ];
    let is_native = native.iter().any(|place| {
        body.pointer(place).is_some_and(|found| found.to_string().contains("magic_number"))
    });
    match (is_native, body.to_string().contains("magic_number")) {
        (true, _) => Ok("native"),
        (false, true) => Ok("in words"),
        _ => Err(body.to_string()),
    }
}

async fn effort(wire: WireKind) -> Found {
    let mut request = ask("?");
    request.settings.effort = Some(ReasoningEffort::High);
    let provider = FakeProvider::start().await;
    provider.reply(Reply::text("x"));
    let asked = crate::harness::held_to_schemas(wire, &provider);
    complete(&asked, request).await.map_err(|error| error.to_string())?;
    let body = provider.bodies()[0].to_string();
    let words = [
        "\"reasoning_effort\":\"high\"",
        "\"effort\":\"high\"",
        "\"thinkingLevel\":\"high\"",
        "\"think\":true",
        "\"budget_tokens\"",
    ];
    when(words.iter().any(|word| body.contains(word)), || body)
}

async fn replay(wire: WireKind) -> Found {
    let provider = FakeProvider::start().await;
    let first = Reply::new().reasoning("hm", "sealed==").and_call("c1", "search", &json!({}));
    provider.replies([first.model("us.anthropic.x"), Reply::text("done")]);
    let asked = model(wire, &provider);
    let answer = complete(&asked, offering("search")).await.map_err(|error| error.to_string())?;
    let call = answer.message.tool_calls().next().cloned().unwrap_or_else(call);
    let mut message = answer.message;
    message.model = None;
    let mut request = offering("search");
    request.messages.push(Arc::new(message));
    request.messages.push(Arc::new(Message::results([ToolResult::text(&call, "y")])));
    complete(&asked, request).await.map_err(|error| error.to_string())?;
    let bodies = provider.bodies();
    let replayed = conversation(wire, &bodies[1]).to_string().contains("sealed==");
    let seals = !matches!(wire, WireKind::OpenAiChat | WireKind::Ollama);
    match (replayed, seals) {
        (true, true) => Ok("yes"),
        (false, false) => Ok("text"),
        _ => Err(bodies[1].to_string()),
    }
}

/// Checks that usage which was reported before the connection broke is known.
async fn cut(wire: WireKind) -> Found {
    let reply = Reply::text("half").usage(Usage::new(10, 5)).drop_connection();
    let (events, error) = play(wire, reply).await;
    let told = events
        .iter()
        .any(|event| matches!(event, provost_model::ModelEvent::Usage(usage) if usage.input == 10));
    let tells = matches!(wire, WireKind::Anthropic | WireKind::Gemini);
    match (told, tells, error.is_some()) {
        (true, true, true) => Ok("input"),
        (false, false, true) => Ok("at end only"),
        _ => Err(format!("{events:?} {error:?}")),
    }
}
