//! Encodes a request for Bedrock Converse.

use std::borrow::Cow;

use provost_core::ContentPart;
use provost_model::{ChatRequest, ModelError, ModelInfo, ReasoningEffort, ToolChoice};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::block::{BedrockMessages, Block, CachePoint, DEFAULT_POINT};
use super::{BedrockConverse, BedrockFamily};
use crate::wire::request::{allows_structured_output, check_tool_choice, to_body};

/// Output limit if neither the request nor the catalog has one, for models with a thinking budget.
const MAX_TOKENS_FALLBACK: u64 = 8192;
/// Smallest thinking budget that the API accepts.
const BUDGET_MIN: u64 = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConverseRequest<'a> {
    messages: BedrockMessages<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    inference_config: InferenceConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    additional_model_request_fields: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    tools: Vec<EncodedTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<EncodedToolChoice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum EncodedTool<'a> {
    ToolSpec(ToolSpec<'a>),
    CachePoint(CachePoint),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: InputSchema<'a>,
}

#[derive(Serialize)]
struct InputSchema<'a> {
    json: Cow<'a, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum EncodedToolChoice<'a> {
    Any {},
    Tool { name: &'a str },
}

/// Encodes the body of a request.
pub(super) fn encode_body(
    wire: &BedrockConverse,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let family = BedrockFamily::of(&info.model);
    let use_cache =
        wire.prompt_cache && matches!(family, BedrockFamily::Claude | BedrockFamily::Nova);
    let mut messages = BedrockMessages::new(request, info);
    let mut system = system_blocks(request, info, &messages);
    let mut tools = tool_list(request, &messages);
    if use_cache {
        messages.mark_cache();
        if !system.is_empty() {
            system.push(Block::cache_point());
        }
        // Only this family caches tools.
        if !tools.is_empty() && family == BedrockFamily::Claude {
            tools.push(EncodedTool::CachePoint(DEFAULT_POINT));
        }
    }
    let additional = thinking_fields(family, request, info);
    let has_thinking = additional.contains_key("thinking");
    let body = ConverseRequest {
        messages,
        system,
        inference_config: InferenceConfig {
            max_tokens: settings
                .max_tokens
                .or(has_thinking.then(|| info.max_output.unwrap_or(MAX_TOKENS_FALLBACK))),
            temperature: settings.temperature.filter(|_| !has_thinking),
            top_p: settings.top_p.filter(|_| !has_thinking),
            stop_sequences: &settings.stop,
        },
        tool_config: (!tools.is_empty())
            .then(|| ToolConfig { tool_choice: tool_choice(request), tools }),
        additional_model_request_fields: additional,
    };
    to_body(&body, &settings.extra)
}

/// Returns the instructions, the system messages and, for structured output, an instruction with the schema.
fn system_blocks<'a>(
    request: &'a ChatRequest,
    info: &ModelInfo,
    messages: &BedrockMessages<'a>,
) -> Vec<Block<'a>> {
    let texts = request.system.as_deref().into_iter().chain(messages.system.iter().copied());
    let texts = texts.filter(|text| !text.trim().is_empty());
    let mut system: Vec<Block<'a>> = texts.map(|text| Block::text(Cow::Borrowed(text))).collect();
    // Converse has no field for a schema, so it becomes an instruction. The caller validates the response in any case.
    if let Some(output) =
        request.output.as_deref().filter(|_| allows_structured_output(request, info))
    {
        let instruction =
            format!("Answer only with JSON that follows this JSON Schema:\n{}", output.schema);
        system.push(Block::text(Cow::Owned(instruction)));
    }
    system
}

/// Returns the tools of the request. The API requires definitions if the history contains tool calls. If the request
/// offers no tools or forbids them, the used ones are still defined, because the API has no tool choice of none.
fn tool_list<'a>(request: &'a ChatRequest, messages: &BedrockMessages<'a>) -> Vec<EncodedTool<'a>> {
    let offers_tools = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
    if offers_tools {
        let tools = request.tools.iter().map(|tool| {
            EncodedTool::ToolSpec(ToolSpec {
                name: &tool.name,
                description: &tool.description,
                input_schema: InputSchema { json: Cow::Borrowed(&tool.input_schema) },
            })
        });
        return tools.collect();
    }
    if !messages.uses_tools {
        return Vec::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for part in request.messages.iter().flat_map(|message| &message.parts) {
        if let ContentPart::ToolCall(call) = part
            && !names.contains(&call.name.as_str())
        {
            names.push(&call.name);
        }
    }
    let used = names.into_iter().map(|name| {
        EncodedTool::ToolSpec(ToolSpec {
            name,
            description: "Not available now.",
            input_schema: InputSchema { json: Cow::Owned(json!({"type": "object"})) },
        })
    });
    used.collect()
}

/// Returns the tool choice. `None` for the vendor's default.
fn tool_choice(request: &ChatRequest) -> Option<EncodedToolChoice<'_>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required => Some(EncodedToolChoice::Any {}),
        ToolChoice::Tool(name) => Some(EncodedToolChoice::Tool { name }),
    }
}

/// Returns the thinking options in the fields of the model family. Empty if no effort is requested or the model does
/// not reason.
fn thinking_fields(
    family: BedrockFamily,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Map<String, Value> {
    let Some(effort) = request.settings.effort.filter(|_| info.reasoning) else {
        return Map::new();
    };
    let level = match effort {
        ReasoningEffort::Minimal | ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
    };
    let fields = match family {
        BedrockFamily::Claude => {
            let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_))
                && !request.tools.is_empty();
            let max_tokens =
                request.settings.max_tokens.or(info.max_output).unwrap_or(MAX_TOKENS_FALLBACK);
            let share = match effort {
                ReasoningEffort::Minimal => 0,
                ReasoningEffort::Low => 20,
                ReasoningEffort::Medium => 50,
                ReasoningEffort::High => 80,
            };
            let budget = (max_tokens / 100 * share).max(BUDGET_MIN);
            // The API rejects thinking together with a forced tool, and a budget that is not below the output limit.
            match budget < max_tokens && !forced {
                true => json!({"thinking": {"type": "enabled", "budget_tokens": budget}}),
                false => json!({}),
            }
        }
        BedrockFamily::Nova => {
            json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}})
        }
        BedrockFamily::GptOss => json!({"reasoning_effort": level}),
        BedrockFamily::Other => json!({}),
    };
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
