//! Random conversations for every wire. A request, read back by the rules of each vendor, has the same meaning.

use provost_core::{ContentPart, Message, Role, Timestamp, ToolCall, ToolResult};
use provost_model::{ChatRequest, complete};
use provost_testkit::{FakeProvider, Reply, WireKind};
use serde_json::{Value, json};

use crate::content::tool;
use crate::harness::{WIRES, conversation, model, short};

const ROUNDS: u64 = 40;
/// Variable with a directory for the request bodies, which can then be validated against published schemas.
const BODIES: &str = "PROVOST_BODIES";

/// A statement of a conversation. Calls are numbered, so that a result names its call whatever its id is.
#[derive(Debug, Clone, PartialEq)]
enum Statement {
    User(String),
    Model(String),
    Call(usize, Value),
    Result(usize, String, bool),
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Returns a call id in the style of some vendor or in none.
fn id(number: usize, chance: &mut Chance) -> String {
    match chance.below(6) {
        0 => format!("call_{number}"),
        1 => format!("toolu_01{number:022}"),
        2 => format!("id with spaces & ümläut {number}"),
        3 => format!("{}{number}", "x".repeat(90)),
        4 => format!("functions.f:{number}"),
        _ => format!("a{number:08}"),
    }
}

/// Returns a conversation and its meaning.
fn history(seed: u64) -> (ChatRequest, Vec<Statement>) {
    let mut chance = Chance(seed);
    let (mut messages, mut said, mut calls) = (Vec::new(), Vec::new(), 0);
    let names = ["search", "memory.read", "größe", "a/b", "3d"];
    for turn in 0..1 + chance.below(5) {
        let text = format!("user {turn} \"quoted\" ü");
        messages.push(Message::user(text.clone()));
        said.push(Statement::User(text));
        let mut parts = Vec::new();
        let wanted = chance.below(4);
        if wanted == 0 || chance.below(2) == 0 {
            let text = format!("model {turn}");
            parts.push(ContentPart::text(text.clone()));
            said.push(Statement::Model(text));
        }
        let (mut results, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..wanted {
            let name = names[usize::try_from(chance.below(5)).unwrap_or(0)];
            let arguments = json!({"n": calls, "text": "ü \"x\""});
            let call = ToolCall::new(id(calls, &mut chance), name, &arguments);
            said.push(Statement::Call(calls, arguments));
            match chance.below(5) {
                // The result was lost in a crash.
                0 => expected.push(Statement::Result(calls, "missing".to_owned(), true)),
                1 => {
                    results.push(ToolResult::error(&call, format!("failed {calls}")));
                    expected.push(Statement::Result(calls, format!("failed {calls}"), true));
                }
                _ => {
                    results.push(ToolResult::text(&call, format!("result {calls}")));
                    expected.push(Statement::Result(calls, format!("result {calls}"), false));
                }
            }
            parts.push(ContentPart::ToolCall(call));
            calls += 1;
        }
        if chance.below(3) == 0 {
            results.reverse();
        }
        if chance.below(4) == 0 {
            results.push(ToolResult::text(&ToolCall::new("orphan", "search", &json!({})), "lost"));
        }
        said.extend(expected);
        messages.push(Message::new(Role::Assistant, parts, Timestamp::default()));
        messages.push(Message::results(results));
    }
    messages.push(Message::user("end"));
    said.push(Statement::User("end".to_owned()));
    let mut request = ChatRequest::new(messages);
    request.tools = names.iter().map(|name| tool(name)).collect();
    (request, said)
}

/// Reads the request of a vendor.
struct Reader {
    ids: Vec<String>,
    said: Vec<Statement>,
}

impl Reader {
    fn text(&mut self, role: &str, text: &Value) {
        let text = text.as_str().unwrap_or_default().to_owned();
        if text.is_empty() {
            return;
        }
        self.said.push(match role {
            "assistant" | "model" => Statement::Model(text),
            _ => Statement::User(text),
        });
    }

    fn call(&mut self, id: &Value, arguments: &Value) {
        let id = id.as_str().unwrap_or_default().to_owned();
        assert!(!id.is_empty() && !self.ids.contains(&id), "{id:?} among {:?}", self.ids);
        let arguments = match arguments {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            value => value.clone(),
        };
        self.said.push(Statement::Call(self.ids.len(), arguments));
        self.ids.push(id);
    }

    fn result(&mut self, id: &Value, text: &Value, failed: bool) {
        let place = self.ids.iter().position(|known| known == id.as_str().unwrap_or_default());
        let text = text.as_str().unwrap_or_default();
        let (text, failed) = match text.strip_prefix("Error: ") {
            Some(text) => (text, true),
            None => (text, failed),
        };
        let text = if text.starts_with("No result:") { "missing" } else { text };
        self.said.push(Statement::Result(place.unwrap_or(usize::MAX), text.to_owned(), failed));
    }

    /// Reads a message with a role and content: a string or blocks.
    fn blocks(&mut self, role: &str, content: &Value) {
        if content.is_string() {
            self.text(role, content);
        }
        for block in content.as_array().into_iter().flatten() {
            let inner = block.get("toolUse").or(block.get("toolResult"));
            let inner = inner.or(block.get("functionCall")).or(block.get("functionResponse"));
            let at = inner.unwrap_or(block);
            let key = |names: &[&str]| {
                names.iter().find_map(|name| at.get(*name)).cloned().unwrap_or_default()
            };
            if at.get("input").or(at.get("args")).is_some() {
                self.call(&key(&["id", "toolUseId"]), &key(&["input", "args"]));
            } else if let Some(response) = at.get("response") {
                let failed = response.get("error");
                let text = failed.or(response.get("output")).cloned().unwrap_or_default();
                self.result(&key(&["id"]), &text, failed.is_some());
            } else if at.get("tool_use_id").or(at.get("toolUseId")).is_some() {
                let failed = at["is_error"] == true || at["status"] == "error";
                self.result(&key(&["tool_use_id", "toolUseId"]), &at["content"][0]["text"], failed);
            } else {
                self.text(role, &key(&["text"]));
            }
        }
    }

    fn item(&mut self, item: &Value) {
        let role = item["role"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => self.call(&item["call_id"], &item["arguments"]),
            Some("function_call_output") => self.result(&item["call_id"], &item["output"], false),
            _ if role == "tool" => self.result(&item["tool_call_id"], &item["content"], false),
            _ => {
                let content = item.get("content").or(item.get("parts")).cloned();
                self.blocks(role, &content.unwrap_or_default());
                for call in item["tool_calls"].as_array().into_iter().flatten() {
                    self.call(&call["id"], &call["function"]["arguments"]);
                }
            }
        }
    }
}

fn names(wire: WireKind, body: &Value) -> Vec<String> {
    let tools = match wire {
        WireKind::Gemini => &body["tools"][0]["functionDeclarations"],
        WireKind::Bedrock => &body["toolConfig"]["tools"],
        _ => &body["tools"],
    };
    let name = |tool: &Value| {
        let name = [&tool["name"], &tool["function"]["name"], &tool["toolSpec"]["name"]];
        name.iter().find_map(|name| name.as_str()).map(str::to_owned)
    };
    tools.as_array().into_iter().flatten().filter_map(name).collect()
}

#[tokio::test]
async fn what_is_sent_means_what_was_said() {
    for wire in WIRES {
        let provider = FakeProvider::answering(|_| Reply::text("ok")).await;
        let asked = model(wire, &provider);
        for seed in 0..ROUNDS {
            let (request, said) = history(seed);
            complete(&asked, request).await.unwrap();
            let body = provider.bodies().pop().unwrap();
            let mut reader = Reader { ids: Vec::new(), said: Vec::new() };
            for item in conversation(wire, &body).as_array().unwrap() {
                reader.item(item);
            }
            assert_eq!(reader.said, said, "{wire:?}, seed {seed}: {body}");
            let sent = names(wire, &body);
            let unique: std::collections::HashSet<_> = sent.iter().collect();
            assert_eq!((sent.len(), unique.len()), (5, 5), "{sent:?}");
            keep(wire, seed, &body);
        }
    }
}

fn keep(wire: WireKind, seed: u64, body: &Value) {
    if let Ok(directory) = std::env::var(BODIES) {
        let path = format!("{directory}/{}-{seed}.json", short(wire));
        std::fs::write(path, body.to_string()).unwrap();
    }
}

#[test]
fn the_oracle_can_fail() {
    let (request, said) = history(3);
    assert!(said.iter().any(|said| matches!(said, Statement::Result(..))));
    let calls = request.messages.iter().flat_map(|message| message.tool_calls()).count();
    assert_eq!(calls, said.iter().filter(|said| matches!(said, Statement::Call(..))).count());
}
