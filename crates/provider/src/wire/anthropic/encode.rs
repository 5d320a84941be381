//! A request as Anthropic Messages wants it, written straight from the borrowed request.

use std::borrow::Cow;

use provost_core::ContentPart;
use provost_model::{ChatRequest, Effort, ModelError, ModelInfo, ToolChoice};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::block::{Block, CacheControl, EPHEMERAL, OPENING, Turns, USER};
use super::{AnthropicMessages, Thinking};
use crate::wire::piece::{allows_native_output, check_tool_choice, to_body};
use crate::wire::schema::{self, Dialect};

/// Output tokens where neither the request nor the catalog says; the vendor wants a number.
const MAX_TOKENS_FALLBACK: u64 = 8192;
/// The smallest thinking budget the vendor takes.
const BUDGET_MIN: u64 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ThinkingField {
    Adaptive { display: &'static str },
    Enabled { budget_tokens: u64 },
}

#[derive(Serialize)]
struct OutputConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
}

#[derive(Serialize)]
struct Format {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: Value,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

struct Messages<'a>(Turns<'a>);

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: &'a [Block<'a>],
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        if self.0.lacks_opening() {
            let opening = [Block::text(OPENING)];
            seq.serialize_element(&WireMessage { role: USER, content: &opening })?;
        }
        for turn in &self.0.turns {
            seq.serialize_element(&WireMessage {
                role: turn.role,
                content: &self.0.blocks[turn.blocks.clone()],
            })?;
        }
        seq.end()
    }
}

/// Writes the body of a request.
pub(super) fn body(
    wire: &AnthropicMessages,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let mut turns = Turns::new(request.messages.iter().map(AsRef::as_ref), info);
    let max_tokens = settings.max_tokens.or(info.max_output).unwrap_or(MAX_TOKENS_FALLBACK);
    let thinking = thinking(wire, request, info, max_tokens).filter(|thinking| match thinking {
        ThinkingField::Enabled { .. } => !turns.forbids_budget(),
        ThinkingField::Adaptive { .. } => true,
    });
    let wanted = request.output.as_deref().filter(|_| allows_native_output(request, info));
    let format = wanted.and_then(|output| schema::strict(&output.schema, Dialect::Anthropic));
    let mut system = system(request, &turns);
    if let (Some(output), None) = (wanted, &format) {
        // A schema the vendor cannot enforce is asked for in words; whoever reads the answer checks it anyway.
        let ask =
            format!("Answer only with JSON that follows this JSON Schema:\n{}", output.schema);
        system.push(Block::owned_text(ask));
    }
    let mut tools = tools(request, &turns);
    if wire.prompt_cache {
        turns.mark_cache();
        if let Some(last) = system.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
    }
    let sampling = wire.sampling && thinking.is_none();
    let body = Body {
        model: &info.model,
        max_tokens,
        stream: true,
        system,
        messages: Messages(turns),
        tool_choice: choice(request, !tools.is_empty()),
        tools,
        output_config: output_config(effort(wire, request, info), format),
        thinking,
        temperature: settings.temperature.filter(|_| sampling),
        top_p: settings.top_p.filter(|_| sampling),
        stop_sequences: &settings.stop,
    };
    to_body(&body, &settings.extra)
}

fn system<'a>(request: &'a ChatRequest, turns: &Turns<'a>) -> Vec<Block<'a>> {
    request
        .system
        .as_deref()
        .into_iter()
        .chain(turns.system.iter().copied())
        .filter(|text| !text.trim().is_empty())
        .map(Block::text)
        .collect()
}

/// The tools of the request. The vendor wants tools defined wherever the history uses some, so where a request offers
/// none any more, the used ones are defined by name and forbidden by the choice.
fn tools<'a>(request: &'a ChatRequest, turns: &Turns<'a>) -> Vec<Tool<'a>> {
    if !request.tools.is_empty() || !turns.uses_tools {
        let tools = request.tools.iter();
        return tools
            .map(|tool| Tool {
                name: &tool.name,
                description: &tool.description,
                input_schema: Cow::Borrowed(&tool.input_schema),
                cache_control: None,
            })
            .collect();
    }
    let mut names: Vec<&str> = Vec::new();
    for part in request.messages.iter().flat_map(|message| &message.parts) {
        let name = match part {
            ContentPart::ToolCall(call) => &call.name,
            ContentPart::ToolResult(result) => &result.name,
            _ => continue,
        };
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let used = names.into_iter().map(|name| Tool {
        name,
        description: "",
        input_schema: Cow::Owned(json!({"type": "object"})),
        cache_control: None,
    });
    used.collect()
}

fn choice(request: &ChatRequest, has_tools: bool) -> Option<Choice<'_>> {
    if !has_tools {
        return None;
    }
    let one_at_a_time = request.settings.parallel_tool_calls == Some(false);
    let (kind, name) = match &request.tool_choice {
        _ if request.tools.is_empty() => ("none", None),
        ToolChoice::Auto if one_at_a_time => ("auto", None),
        ToolChoice::Auto => return None,
        ToolChoice::None => ("none", None),
        ToolChoice::Required => ("any", None),
        ToolChoice::Tool(name) => ("tool", Some(name.as_str())),
    };
    Some(Choice { kind, name, disable_parallel_tool_use: one_at_a_time && kind != "none" })
}

fn thinking(
    wire: &AnthropicMessages,
    request: &ChatRequest,
    info: &ModelInfo,
    max_tokens: u64,
) -> Option<ThinkingField> {
    let effort = request.settings.effort.filter(|_| info.reasoning)?;
    // The vendor refuses thinking together with a forced tool.
    let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    if forced && !request.tools.is_empty() {
        return None;
    }
    match wire.thinking {
        Thinking::Adaptive => Some(ThinkingField::Adaptive { display: "summarized" }),
        Thinking::Budget => {
            let share = match effort {
                Effort::Minimal => 0,
                Effort::Low => 20,
                Effort::Medium => 50,
                Effort::High => 80,
            };
            let budget_tokens = (max_tokens / 100 * share).max(BUDGET_MIN);
            // The budget is a part of the output limit.
            (budget_tokens < max_tokens).then_some(ThinkingField::Enabled { budget_tokens })
        }
    }
}

fn effort(
    wire: &AnthropicMessages,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Option<&'static str> {
    let effort = request.settings.effort.filter(|_| info.reasoning)?;
    (wire.thinking == Thinking::Adaptive).then_some(match effort {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    })
}

fn output_config(effort: Option<&'static str>, schema: Option<Value>) -> Option<OutputConfig> {
    if effort.is_none() && schema.is_none() {
        return None;
    }
    Some(OutputConfig {
        effort,
        format: schema.map(|schema| Format { kind: "json_schema", schema }),
    })
}
