//! Encodes a request for OpenAI Responses. It serializes the borrowed request without copies.

use std::borrow::Cow;

use provost_model::{
    ChatRequest, ModelError, ModelInfo, OutputSchema, ReasoningEffort, ToolChoice,
};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::OpenAiResponses;
use super::item::Input;
use crate::wire::request::{allows_structured_output, check_tool_choice, to_body};
use crate::wire::schema::{self, SchemaDialect};

#[derive(Serialize)]
struct ResponsesRequest<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: Input<'a>,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<ReasoningField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<EncodedToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextField<'a>>,
}

#[derive(Serialize)]
struct ReasoningField {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<ReasoningEffort>,
    summary: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum EncodedToolChoice<'a> {
    Mode(&'static str),
    Function {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

#[derive(Serialize)]
struct TextField<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    strict: bool,
    schema: Cow<'a, Value>,
}

impl<'a> Format<'a> {
    fn new(output: &'a OutputSchema) -> Self {
        let strict = schema::to_strict(&output.schema, SchemaDialect::OpenAi);
        Self {
            kind: "json_schema",
            name: schema::sanitize_name(&output.name),
            description: output.description.as_deref(),
            strict: strict.is_some(),
            schema: strict.map_or(Cow::Borrowed(&output.schema), Cow::Owned),
        }
    }
}

struct Tools<'a>(&'a ChatRequest);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.tools.iter().map(|tool| EncodedTool {
            kind: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.input_schema,
            strict: false,
        }))
    }
}

#[derive(Serialize)]
struct EncodedTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: &'a Value,
    /// Always sent as false, because the default of this API is true, and it may not support the schema.
    strict: bool,
}

/// Encodes the body of a request.
pub(super) fn encode_body(
    wire: &OpenAiResponses,
    request: &ChatRequest,
    info: &ModelInfo,
) -> Result<Vec<u8>, ModelError> {
    check_tool_choice(request)?;
    let settings = &request.settings;
    let has_tools = !request.tools.is_empty();
    let encrypted = info.reasoning && wire.encrypted_reasoning;
    let output = request.output.as_deref().filter(|_| allows_structured_output(request, info));
    let body = ResponsesRequest {
        model: &info.model,
        instructions: request.system.as_deref(),
        input: Input { wire, request, info },
        stream: true,
        store: false,
        include: if encrypted { &["reasoning.encrypted_content"] } else { &[] },
        max_output_tokens: settings.max_tokens,
        temperature: settings.temperature,
        top_p: settings.top_p,
        reasoning: info
            .reasoning
            .then_some(ReasoningField { effort: settings.effort, summary: "auto" }),
        tools: has_tools.then_some(Tools(request)),
        tool_choice: tool_choice(request).filter(|_| has_tools),
        parallel_tool_calls: settings.parallel_tool_calls.filter(|_| has_tools),
        text: output.map(|output| TextField { format: Format::new(output) }),
    };
    to_body(&body, &settings.extra)
}

/// Returns the tool choice. `None` for the vendor's default.
fn tool_choice(request: &ChatRequest) -> Option<EncodedToolChoice<'_>> {
    match &request.tool_choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(EncodedToolChoice::Mode("none")),
        ToolChoice::Required => Some(EncodedToolChoice::Mode("required")),
        ToolChoice::Tool(name) => Some(EncodedToolChoice::Function { kind: "function", name }),
    }
}
