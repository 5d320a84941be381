//! A request as Bedrock's Converse wants it.

use std::borrow::Cow;

use provost_core::ContentPart;
use provost_model::{ChatRequest, Effort, ModelError, ModelInfo, ToolChoice};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::block::{Block, CachePoint, DEFAULT_POINT, Turns};
use super::{BedrockConverse, Family};
use crate::wire::piece::{allows_native_output, check_tool_choice, to_body};

/// Output tokens where neither the request nor the catalog says, for models that think within a budget.
const MAX_TOKENS_FALLBACK: u64 = 8192;
/// The smallest thinking budget the vendor takes.
const BUDGET_MIN: u64 = 1024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    messages: Turns<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    inference_config: Inference<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    additional_model_request_fields: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inference<'a> {
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
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Tool<'a> {
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
enum Choice<'a> {
    Any {},
    Tool { name: &'a str },
}

/// Writes the body of a request.
pub(super) fn body(
    wire: &BedrockConverse,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let family = Family::of(&info.model);
    let caches = wire.prompt_cache && matches!(family, Family::Claude | Family::Nova);
    let mut messages = Turns::new(request, info);
    let mut system = system(request, info, &messages);
    let mut tools = tools(request, &messages);
    if caches {
        messages.mark_cache();
        if !system.is_empty() {
            system.push(Block::cache_point());
        }
        // This family keeps no tools in its cache.
        if !tools.is_empty() && family == Family::Claude {
            tools.push(Tool::CachePoint(DEFAULT_POINT));
        }
    }
    let additional = thinking(family, request, info);
    let thinks = additional.contains_key("thinking");
    let body = Body {
        messages,
        system,
        inference_config: Inference {
            max_tokens: settings
                .max_tokens
                .or(thinks.then(|| info.max_output.unwrap_or(MAX_TOKENS_FALLBACK))),
            temperature: settings.temperature.filter(|_| !thinks),
            top_p: settings.top_p.filter(|_| !thinks),
            stop_sequences: &settings.stop,
        },
        tool_config: (!tools.is_empty())
            .then(|| ToolConfig { tool_choice: choice(request), tools }),
        additional_model_request_fields: additional,
    };
    to_body(&body, &settings.extra)
}

fn system<'a>(request: &'a ChatRequest, info: &ModelInfo, turns: &Turns<'a>) -> Vec<Block<'a>> {
    let texts = request.system.as_deref().into_iter().chain(turns.system.iter().copied());
    let texts = texts.filter(|text| !text.trim().is_empty());
    let mut system: Vec<Block<'a>> = texts.map(|text| Block::text(Cow::Borrowed(text))).collect();
    // The vendor has no common way to hold a model to a schema; whoever reads the answer checks it anyway.
    if let Some(output) = request.output.as_deref().filter(|_| allows_native_output(request, info))
    {
        let ask =
            format!("Answer only with JSON that follows this JSON Schema:\n{}", output.schema);
        system.push(Block::text(Cow::Owned(ask)));
    }
    system
}

/// The tools of the request. The vendor wants tools defined wherever the history uses some, so where a request offers none any
/// more, or forbids them, the used ones are still defined: a choice of none cannot be said.
fn tools<'a>(request: &'a ChatRequest, turns: &Turns<'a>) -> Vec<Tool<'a>> {
    let offers = !request.tools.is_empty() && request.tool_choice != ToolChoice::None;
    if offers {
        let tools = request.tools.iter().map(|tool| {
            Tool::ToolSpec(ToolSpec {
                name: &tool.name,
                description: &tool.description,
                input_schema: InputSchema { json: Cow::Borrowed(&tool.input_schema) },
            })
        });
        return tools.collect();
    }
    if !turns.uses_tools {
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
        Tool::ToolSpec(ToolSpec {
            name,
            description: "Not available now.",
            input_schema: InputSchema { json: Cow::Owned(json!({"type": "object"})) },
        })
    });
    used.collect()
}

fn choice(request: &ChatRequest) -> Option<Choice<'_>> {
    match &request.tool_choice {
        _ if request.tools.is_empty() => None,
        ToolChoice::Auto | ToolChoice::None => None,
        ToolChoice::Required => Some(Choice::Any {}),
        ToolChoice::Tool(name) => Some(Choice::Tool { name }),
    }
}

/// What a family of models is told about thinking, in its own words.
fn thinking(family: Family, request: &ChatRequest, info: &ModelInfo) -> Map<String, Value> {
    let Some(effort) = request.settings.effort.filter(|_| info.reasoning) else {
        return Map::new();
    };
    let word = match effort {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    };
    let fields = match family {
        Family::Claude => {
            let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_))
                && !request.tools.is_empty();
            let max_tokens =
                request.settings.max_tokens.or(info.max_output).unwrap_or(MAX_TOKENS_FALLBACK);
            let share = match effort {
                Effort::Minimal => 0,
                Effort::Low => 20,
                Effort::Medium => 50,
                Effort::High => 80,
            };
            let budget = (max_tokens / 100 * share).max(BUDGET_MIN);
            // The vendor refuses thinking together with a forced tool, and a budget that is no part of the output limit.
            match budget < max_tokens && !forced {
                true => json!({"thinking": {"type": "enabled", "budget_tokens": budget}}),
                false => json!({}),
            }
        }
        Family::Nova => {
            json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": word}})
        }
        Family::GptOss => json!({"reasoning_effort": word}),
        Family::Other => json!({}),
    };
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
