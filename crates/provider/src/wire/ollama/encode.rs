//! A request as Ollama wants it.

use provost_model::{ChatRequest, Effort, ModelError, ModelInfo, ToolChoice};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::OllamaChat;
use super::message::Messages;
use crate::wire::piece::{allows_native_output, check_tool_choice, to_body};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Tools<'a>>,
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

struct Tools<'a>(&'a ChatRequest);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let only = match &self.0.tool_choice {
            ToolChoice::Tool(name) => Some(name),
            _ => None,
        };
        let offered = self.0.tools.iter().filter(|tool| only.is_none_or(|only| *only == tool.name));
        serializer.collect_seq(offered.map(|tool| Tool {
            kind: "function",
            function: Function {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.input_schema,
            },
        }))
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
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
        tools: offers.then_some(Tools(request)),
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
