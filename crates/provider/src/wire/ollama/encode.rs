//! Encodes a request for Ollama.

use provost_model::{ChatRequest, ModelError, ModelInfo, ReasoningEffort, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use super::OllamaChat;
use super::message::Messages;
use crate::wire::function_tool::FunctionTool;
use crate::wire::request::{allows_structured_output, check_tool_choice, to_body};

#[derive(Serialize)]
struct OllamaRequest<'a> {
    model: &'a str,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<FunctionTool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<ThinkOption>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<&'a str>,
    options: Options<'a>,
}

/// Thinking option: a level for models with levels, a flag for others.
#[derive(Serialize)]
#[serde(untagged)]
enum ThinkOption {
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

/// Returns the tools of the request. If one tool must be called, returns only that tool.
fn offered_tools(request: &ChatRequest) -> Vec<FunctionTool<'_>> {
    let forced = match &request.tool_choice {
        ToolChoice::Tool(name) => Some(name),
        _ => None,
    };
    let offered =
        request.tools.iter().filter(|tool| forced.is_none_or(|forced| *forced == tool.name));
    offered.map(|tool| FunctionTool::new(tool)).collect()
}

/// Encodes the body of a request.
///
/// The API has no tool choice. `None` offers no tools, and a specific tool is offered alone. `Required` has no
/// equivalent.
pub(super) fn encode_body(
    wire: &OllamaChat,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let offers_tools = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
    let output = request.output.as_deref().filter(|_| allows_structured_output(request, info));
    let body = OllamaRequest {
        model: &info.model,
        messages: Messages { wire, request, info },
        stream: true,
        tools: offers_tools.then(|| offered_tools(request)),
        format: output.map(|output| &output.schema),
        think: think_option(request, info),
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

/// Returns the thinking option for the requested effort. `None` if no effort is requested or the model does not reason.
fn think_option(request: &ChatRequest, info: &ModelInfo) -> Option<ThinkOption> {
    let effort = request.settings.effort.filter(|_| info.reasoning)?;
    let has_levels = info.model.starts_with("gpt-oss");
    Some(match (has_levels, effort) {
        (true, ReasoningEffort::Minimal | ReasoningEffort::Low) => ThinkOption::Level("low"),
        (true, ReasoningEffort::Medium) => ThinkOption::Level("medium"),
        (true, ReasoningEffort::High) => ThinkOption::Level("high"),
        (false, ReasoningEffort::Minimal) => ThinkOption::Switch(false),
        (false, _) => ThinkOption::Switch(true),
    })
}
