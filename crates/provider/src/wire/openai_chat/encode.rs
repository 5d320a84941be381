//! Encodes a request for OpenAI Chat Completions. It serializes the borrowed request without copies.

use std::borrow::Cow;

use provost_model::{ChatRequest, ModelError, ModelInfo, ReasoningEffort, ToolChoice};
use serde::Serialize;
use serde_json::Value;

use super::message::Messages;
use super::{EffortField, OpenAiChat};
use crate::wire::function_tool::FunctionTool;
use crate::wire::request::{allows_structured_output, check_tool_choice, to_body};
use crate::wire::schema::{self, SchemaDialect};

/// Largest number of stop sequences that the API accepts.
const STOP_MAX: usize = 4;

#[derive(Serialize)]
struct ChatCompletionRequest<'a> {
    model: &'a str,
    messages: Messages<'a>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<FunctionTool<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<EncodedToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Reasoning {
    effort: ReasoningEffort,
}

/// Encodes the body of a request.
pub(super) fn encode_body(
    wire: &OpenAiChat,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let has_tools = !request.tools.is_empty();
    let (new_max, old_max) = match wire.legacy_max_tokens {
        true => (None, settings.max_tokens),
        false => (settings.max_tokens, None),
    };
    let effort = settings.effort.filter(|_| info.reasoning);
    let output = request.output.as_deref();
    let body = ChatCompletionRequest {
        model: &info.model,
        messages: Messages { wire, request, info },
        stream: true,
        stream_options: (!wire.no_stream_options).then_some(StreamOptions { include_usage: true }),
        max_completion_tokens: new_max,
        max_tokens: old_max,
        temperature: settings.temperature,
        top_p: settings.top_p,
        stop: &settings.stop[..settings.stop.len().min(STOP_MAX)],
        seed: settings.seed.filter(|_| !wire.no_seed),
        reasoning_effort: effort.filter(|_| wire.effort == EffortField::ReasoningEffort),
        reasoning: effort
            .filter(|_| wire.effort == EffortField::Reasoning)
            .map(|effort| Reasoning { effort }),
        tools: has_tools
            .then(|| request.tools.iter().map(|tool| FunctionTool::new(tool)).collect()),
        tool_choice: tool_choice(wire, request).filter(|_| has_tools),
        parallel_tool_calls: settings
            .parallel_tool_calls
            .filter(|_| has_tools && !wire.no_parallel_tool_calls),
        response_format: output
            .filter(|_| allows_structured_output(request, info))
            .map(|output| ResponseFormat::new(output, wire)),
    };
    to_body(&body, &settings.extra)
}

/// Returns the tool choice. `None` for the vendor's default.
fn tool_choice<'a>(wire: &OpenAiChat, request: &'a ChatRequest) -> Option<EncodedToolChoice<'a>> {
    match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(EncodedToolChoice::Mode("none")),
        ToolChoice::Required if wire.choice_any => Some(EncodedToolChoice::Mode("any")),
        ToolChoice::Required => Some(EncodedToolChoice::Mode("required")),
        ToolChoice::Tool(name) => {
            Some(EncodedToolChoice::Function { kind: "function", function: Named { name } })
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum EncodedToolChoice<'a> {
    Mode(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        function: Named<'a>,
    },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    schema: Cow<'a, Value>,
}

impl<'a> ResponseFormat<'a> {
    fn new(output: &'a provost_model::OutputSchema, wire: &OpenAiChat) -> Self {
        let strict = schema::to_strict(&output.schema, SchemaDialect::OpenAi);
        Self {
            kind: "json_schema",
            json_schema: JsonSchema {
                name: schema::sanitize_name(&output.name),
                description: output.description.as_deref(),
                strict: (!wire.no_strict).then_some(strict.is_some()),
                schema: strict.map_or(Cow::Borrowed(&output.schema), Cow::Owned),
            },
        }
    }
}
