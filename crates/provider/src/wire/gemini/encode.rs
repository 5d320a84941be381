//! Encodes a request for Gemini.

use std::borrow::Cow;

use provost_model::{ChatRequest, ModelError, ModelInfo, ReasoningEffort, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use super::content::{Contents, ModelTraits, Part};
use super::{GeminiContent, GeminiThinking};
use crate::wire::request::{allows_structured_output, check_tool_choice, to_body};

/// Largest number of stop sequences that the API accepts.
const STOP_MAX: usize = 5;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerateContentRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    contents: Contents<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    generation_config: GenerationConfig<'a>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<FunctionDeclaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionDeclaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters_json_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: FunctionCallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
}

/// Encodes the body of a request.
pub(super) fn encode_body(
    wire: &GeminiContent,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    // Models with thinking levels are those that sign tool calls and read media in tool results.
    let has_levels = wire.thinking == GeminiThinking::Level;
    let traits = ModelTraits {
        images: info.images,
        requires_signatures: has_levels,
        media_in_results: has_levels,
    };
    let contents = Contents::new(request, traits);
    let system: Vec<Part<'_>> = request
        .system
        .as_deref()
        .into_iter()
        .chain(contents.system.iter().copied())
        .filter(|text| !text.is_empty())
        .map(|text| Part::text(Cow::Borrowed(text)))
        .collect();
    let output = request.output.as_deref().filter(|_| allows_structured_output(request, info));
    let declarations = request.tools.iter().map(|tool| FunctionDeclaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: &tool.input_schema,
    });
    let has_tools = !request.tools.is_empty();
    let body = GenerateContentRequest {
        system_instruction: (!system.is_empty()).then_some(Instruction { parts: system }),
        contents,
        tools: has_tools.then(|| [Tools { function_declarations: declarations.collect() }]),
        tool_config: function_calling_config(request)
            .filter(|_| has_tools)
            .map(|function_calling_config| ToolConfig { function_calling_config }),
        generation_config: GenerationConfig {
            max_output_tokens: settings.max_tokens,
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop_sequences: &settings.stop[..settings.stop.len().min(STOP_MAX)],
            seed: settings.seed,
            thinking_config: thinking_config(wire, request, info),
            response_mime_type: output.map(|_| "application/json"),
            response_json_schema: output.map(|output| &output.schema),
        },
    };
    to_body(&body, &settings.extra)
}

/// Returns the tool choice. `None` for the vendor's default.
fn function_calling_config(request: &ChatRequest) -> Option<FunctionCallingConfig<'_>> {
    let (mode, allowed) = match &request.tool_choice {
        ToolChoice::Auto => return None,
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Tool(name) => ("ANY", Some([name.as_str()])),
    };
    Some(FunctionCallingConfig { mode, allowed_function_names: allowed })
}

/// Returns the thinking options. `None` if the model does not reason.
fn thinking_config(
    wire: &GeminiContent,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Option<ThinkingConfig> {
    if !info.reasoning {
        return None;
    }
    let effort = request.settings.effort;
    let level = effort.map(|effort| match effort {
        ReasoningEffort::Minimal => "minimal",
        ReasoningEffort::Low => "low",
        ReasoningEffort::Medium => "medium",
        ReasoningEffort::High => "high",
    });
    let budget = effort.map(|effort| match effort {
        ReasoningEffort::Minimal => 512,
        ReasoningEffort::Low => 2048,
        ReasoningEffort::Medium => 8192,
        ReasoningEffort::High => 24_576,
    });
    let (thinking_level, thinking_budget) = match wire.thinking {
        GeminiThinking::Level => (level, None),
        GeminiThinking::Budget => (None, budget),
    };
    Some(ThinkingConfig { include_thoughts: true, thinking_level, thinking_budget })
}
