//! Encodes a request for Anthropic Messages. It serializes the borrowed request without copies.

use std::borrow::Cow;

use provost_core::ContentPart;
use provost_model::{ChatRequest, ModelError, ModelInfo, ReasoningEffort, ToolChoice};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::block::{Block, CacheControl, EPHEMERAL, MessageBlocks, OPENING, USER};
use super::{AnthropicMessages, Thinking};
use crate::wire::request::{allows_structured_output, check_tool_choice, to_body};
use crate::wire::schema::{self, SchemaDialect};

/// Output limit if neither the request nor the catalog has one. The API requires a number.
const MAX_TOKENS_FALLBACK: u64 = 8192;
/// Smallest thinking budget that the API accepts.
const BUDGET_MIN: u64 = 1024;

#[derive(Serialize)]
struct MessagesRequest<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<EncodedTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoiceField<'a>>,
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
struct EncodedTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct ToolChoiceField<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

struct Messages<'a>(MessageBlocks<'a>);

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    content: &'a [Block<'a>],
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        if self.0.starts_with_assistant() {
            let opening = [Block::text(OPENING)];
            seq.serialize_element(&WireMessage { role: USER, content: &opening })?;
        }
        for message in &self.0.messages {
            seq.serialize_element(&WireMessage {
                role: message.role,
                content: &self.0.blocks[message.blocks.clone()],
            })?;
        }
        seq.end()
    }
}

/// Encodes the body of a request.
pub(super) fn encode_body(
    wire: &AnthropicMessages,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let mut conversation = MessageBlocks::new(request.messages.iter().map(AsRef::as_ref), info);
    let max_tokens = settings.max_tokens.or(info.max_output).unwrap_or(MAX_TOKENS_FALLBACK);
    let thinking =
        thinking_field(wire, request, info, max_tokens).filter(|thinking| match thinking {
            ThinkingField::Enabled { .. } => !conversation.forbids_budget(),
            ThinkingField::Adaptive { .. } => true,
        });
    let output = request.output.as_deref().filter(|_| allows_structured_output(request, info));
    let format =
        output.and_then(|output| schema::to_strict(&output.schema, SchemaDialect::Anthropic));
    let mut system = system_blocks(request, &conversation);
    if let (Some(output), None) = (output, &format) {
        // A schema that the API cannot enforce becomes an instruction. The caller validates the response in any case.
        let instruction =
            format!("Answer only with JSON that follows this JSON Schema:\n{}", output.schema);
        system.push(Block::owned_text(instruction));
    }
    let mut tools = tool_list(request, &conversation);
    if wire.prompt_cache {
        conversation.mark_cache();
        if let Some(last) = system.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
        if let Some(last) = tools.last_mut() {
            last.cache_control = Some(EPHEMERAL);
        }
    }
    let sampling = wire.sampling && thinking.is_none();
    let body = MessagesRequest {
        model: &info.model,
        max_tokens,
        stream: true,
        system,
        messages: Messages(conversation),
        tool_choice: tool_choice(request, !tools.is_empty()),
        tools,
        output_config: output_config(effort_level(wire, request, info), format),
        thinking,
        temperature: settings.temperature.filter(|_| sampling),
        top_p: settings.top_p.filter(|_| sampling),
        stop_sequences: &settings.stop,
    };
    to_body(&body, &settings.extra)
}

/// Returns the instructions and the texts of the system messages that are not blank.
fn system_blocks<'a>(request: &'a ChatRequest, conversation: &MessageBlocks<'a>) -> Vec<Block<'a>> {
    request
        .system
        .as_deref()
        .into_iter()
        .chain(conversation.system.iter().copied())
        .filter(|text| !text.trim().is_empty())
        .map(Block::text)
        .collect()
}

/// Returns the tools of the request. The API requires definitions if the history contains tool calls. If the request
/// offers no tools, the used ones are defined by name and the tool choice forbids them.
fn tool_list<'a>(
    request: &'a ChatRequest,
    conversation: &MessageBlocks<'a>,
) -> Vec<EncodedTool<'a>> {
    if !request.tools.is_empty() || !conversation.uses_tools {
        let tools = request.tools.iter();
        return tools
            .map(|tool| EncodedTool {
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
    let used = names.into_iter().map(|name| EncodedTool {
        name,
        description: "",
        input_schema: Cow::Owned(json!({"type": "object"})),
        cache_control: None,
    });
    used.collect()
}

/// Returns the tool choice. `None` for the vendor's default.
fn tool_choice(request: &ChatRequest, has_tools: bool) -> Option<ToolChoiceField<'_>> {
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
    Some(ToolChoiceField { kind, name, disable_parallel_tool_use: one_at_a_time && kind != "none" })
}

/// Returns the thinking option. `None` if no effort is requested, the model does not reason, or a tool call is forced.
fn thinking_field(
    wire: &AnthropicMessages,
    request: &ChatRequest,
    info: &ModelInfo,
    max_tokens: u64,
) -> Option<ThinkingField> {
    let effort = request.settings.effort.filter(|_| info.reasoning)?;
    // The API rejects thinking together with a forced tool.
    let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    if forced && !request.tools.is_empty() {
        return None;
    }
    match wire.thinking {
        Thinking::Adaptive => Some(ThinkingField::Adaptive { display: "summarized" }),
        Thinking::Budget => {
            let share = match effort {
                ReasoningEffort::Minimal => 0,
                ReasoningEffort::Low => 20,
                ReasoningEffort::Medium => 50,
                ReasoningEffort::High => 80,
            };
            let budget_tokens = (max_tokens / 100 * share).max(BUDGET_MIN);
            // The budget is part of the output limit.
            (budget_tokens < max_tokens).then_some(ThinkingField::Enabled { budget_tokens })
        }
    }
}

/// Returns the effort for models with adaptive thinking. `None` for other models or if no effort is requested.
fn effort_level(
    wire: &AnthropicMessages,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Option<&'static str> {
    let effort = request.settings.effort.filter(|_| info.reasoning)?;
    (wire.thinking == Thinking::Adaptive).then_some(match effort {
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
    })
}

/// Returns the options of the output. `None` if there is neither an effort nor a schema.
fn output_config(effort: Option<&'static str>, schema: Option<Value>) -> Option<OutputConfig> {
    if effort.is_none() && schema.is_none() {
        return None;
    }
    Some(OutputConfig {
        effort,
        format: schema.map(|schema| Format { kind: "json_schema", schema }),
    })
}
