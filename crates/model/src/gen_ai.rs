//! Names of attributes and metrics of the GenAI semantic conventions, which are still in development.
//!
//! Attributes with content are opt-in in the conventions. Provost never records them as span fields.

use provost_core::Money;

/// Name of the operation: `chat`, `invoke_agent` or `execute_tool`.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// Name of the provider.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// Name of the provider in conventions before 1.37.
pub const SYSTEM: &str = "gen_ai.system";
/// Id of the conversation.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// Requested output type: `text` or `json`.
pub const OUTPUT_TYPE: &str = "gen_ai.output.type";

/// Name of the agent.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// Path of the agent, including its parent agents.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// Number of model calls of a run. Not part of the conventions.
pub const AGENT_TURNS: &str = "gen_ai.agent.total_turns";
/// Number of tool calls of a run. Not part of the conventions.
pub const AGENT_TOOL_CALLS: &str = "gen_ai.agent.total_tool_calls";

/// Name of the requested model.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Requested limit of output tokens.
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// Requested sampling temperature.
pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// Requested nucleus sampling probability.
pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
/// Requested seed for reproducible responses.
pub const REQUEST_SEED: &str = "gen_ai.request.seed";
/// True if the response is streamed.
pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
/// Requested stop sequences, as a list.
pub const REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";

/// Name of the model that responded.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The provider's id of the response.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Reasons why the model stopped, as a list.
pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Number of all input tokens.
pub const USAGE_INPUT: &str = "gen_ai.usage.input_tokens";
/// Number of all output tokens.
pub const USAGE_OUTPUT: &str = "gen_ai.usage.output_tokens";
/// Number of input tokens read from the provider's cache.
pub const USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
/// Number of input tokens written to the provider's cache.
pub const USAGE_CACHE_WRITE: &str = "gen_ai.usage.cache_creation.input_tokens";
/// Number of output tokens used for reasoning.
pub const USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";

/// Cost of the call in its currency. Not part of the conventions.
pub const USAGE_COST: &str = "gen_ai.usage.cost";
/// Currency of the cost. Not part of the conventions.
pub const USAGE_COST_CURRENCY: &str = "gen_ai.usage.cost.currency";
/// Seconds until the first delta of the response.
pub const RESPONSE_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
/// Number of dimensions of an embedding.
pub const EMBEDDINGS_DIMENSIONS: &str = "gen_ai.embeddings.dimension.count";
/// Number of texts in a request. Not part of the conventions.
pub const REQUEST_INPUT_COUNT: &str = "gen_ai.request.input_count";

/// Name of the tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// Id of the tool call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// Type of the tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// Description of the tool.
pub const TOOL_DESCRIPTION: &str = "gen_ai.tool.description";
/// Number of tool calls of a turn. Not part of the conventions.
pub const TOOL_COUNT: &str = "tool.count";

/// Class of a failure.
pub const ERROR_TYPE: &str = "error.type";
/// Id of the run. Not part of the conventions.
pub const RUN_ID: &str = "run.id";

/// Content: the instructions.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// Content: the messages that are sent to the model.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// Content: the messages that the model returns.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Content: the arguments of a tool call.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: the result of a tool call.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// Type of the tokens in a measurement: input or output.
pub const TOKEN_TYPE: &str = "gen_ai.token.type";
/// Metric of used tokens.
pub const METRIC_TOKENS: &str = "gen_ai.client.token.usage";
/// Metric of the duration of calls to providers.
pub const METRIC_DURATION: &str = "gen_ai.client.operation.duration";
/// Metric of the time until the first delta of a response.
pub const METRIC_FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
/// Metric of the cost of calls. Not part of the conventions.
pub const METRIC_COST: &str = "gen_ai.client.operation.cost";
/// Metric of the duration of runs.
pub const METRIC_AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
/// Metric of the duration of tool calls.
pub const METRIC_TOOL_DURATION: &str = "gen_ai.execute_tool.duration";

/// Operation name of a model call.
pub const CHAT: &str = "chat";
/// Operation name of an embeddings request.
pub const EMBEDDINGS: &str = "embeddings";
/// Operation name of a rerank request. Not part of the conventions.
pub const RERANK: &str = "rerank";
/// Operation name of a run of an agent.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// Operation name of a tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// Operation name of all tool calls of a turn. Not part of the conventions.
pub const EXECUTE_TOOLS: &str = "execute_tools";

/// Attributes whose value is a list. A span field cannot hold a list, so the value is recorded as JSON text.
pub const LISTS: [&str; 2] = [RESPONSE_FINISH_REASONS, REQUEST_STOP_SEQUENCES];

/// Converts the name of a provider to its name in the conventions. Returns other names unchanged.
pub fn provider(name: &str) -> &str {
    match name {
        "azure" => "azure.ai.openai",
        "bedrock" => "aws.bedrock",
        "gemini" | "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "vertexai" => "gcp.vertex_ai",
        "xai" => "x_ai",
        other => other,
    }
}

/// Converts a cost to a number for exporters, 0 if it cannot be converted. Use it for charts only: billing uses decimal
/// amounts.
pub fn amount(cost: Money) -> f64 {
    cost.amount.to_string().parse().unwrap_or_default()
}
