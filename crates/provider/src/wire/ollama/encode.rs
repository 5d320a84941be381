//! A request as Ollama wants it.

use provost_model::{ChatRequest, Effort, ModelError, ModelInfo, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use super::OllamaChat;
use super::message::Messages;
use crate::wire::function_tool::FunctionTool;
use crate::wire::piece::{allows_native_output, check_tool_choice, to_body};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<FunctionTool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<&'a str>,
    options: Options<'a>,
}

/// A word for models that know levels, a switch for the others.
#[derive(Serialize)]
#[serde(untagged)]
enum Think {
    Level(&'static str),
    Switch(bool),
}

#[derive(Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
}

/// The tools that are offered: one alone, if it must be called.
fn tools(request: &ChatRequest) -> Vec<FunctionTool<'_>> {
    let only = match &request.tool_choice {
        ToolChoice::Tool(name) => Some(name),
        _ => None,
    };
    let offered = request.tools.iter().filter(|tool| only.is_none_or(|only| *only == tool.name));
    offered.map(|tool| FunctionTool::new(tool)).collect()
}

/// Writes the body of a request.
///
/// The server knows no choice of tools. `None` is kept by offering none, one tool by offering only that one; that a tool must
/// be called cannot be said.
pub(super) fn body(
    wire: &OllamaChat,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let offers = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
    let output = request.output.as_deref().filter(|_| allows_native_output(request, info));
    let body = Body {
        model: &info.model,
        messages: Messages { wire, request, info },
        stream: true,
        tools: offers.then(|| tools(request)),
        format: output.map(|output| &output.schema),
        think: think(request, info),
        keep_alive: wire.keep_alive.as_deref(),
        options: Options {
            num_predict: settings.max_tokens,
            num_ctx: wire.context_tokens,
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop: &settings.stop,
            seed: settings.seed,
        },
    };
    to_body(&body, &settings.extra)
}

fn think(request: &ChatRequest, info: &ModelInfo) -> Option<Think> {
    let effort = request.settings.effort.filter(|_| info.reasoning)?;
    let knows_levels = info.model.starts_with("gpt-oss");
    Some(match (knows_levels, effort) {
        (true, Effort::Minimal | Effort::Low) => Think::Level("low"),
        (true, Effort::Medium) => Think::Level("medium"),
        (true, Effort::High) => Think::Level("high"),
        (false, Effort::Minimal) => Think::Switch(false),
        (false, _) => Think::Switch(true),
    })
}
