//! The names of attributes and metrics: the GenAI semantic conventions as they are developed, in one table.
//!
//! What the conventions call opt-in is content; it is never recorded as a field.

use provost_core::Money;

/// What is being done: `chat`, `invoke_agent`, `execute_tool`.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// Who serves the model.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// What the provider's name was called before 1.37 of the conventions.
pub const SYSTEM: &str = "gen_ai.system";
/// The conversation that messages belong to.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// What was asked for: `text` or `json`.
pub const OUTPUT_TYPE: &str = "gen_ai.output.type";

/// The agent.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The agent with the agents above it.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// Model calls of a run; not in the conventions.
pub const AGENT_TURNS: &str = "gen_ai.agent.total_turns";
/// Tool calls of a run; not in the conventions.
pub const AGENT_TOOL_CALLS: &str = "gen_ai.agent.total_tool_calls";

/// The model that is asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Most output tokens.
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// Randomness.
pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// Nucleus sampling.
pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
/// For repeatable answers.
pub const REQUEST_SEED: &str = "gen_ai.request.seed";
/// Whether the answer is streamed.
pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
/// Texts that end the answer: a list.
pub const REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";

/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The provider's id of the answer.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Why the model stopped: a list.
pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// All input tokens.
pub const USAGE_INPUT: &str = "gen_ai.usage.input_tokens";
/// All output tokens.
pub const USAGE_OUTPUT: &str = "gen_ai.usage.output_tokens";
/// Input tokens that the provider's cache answered.
pub const USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
/// Input tokens that were written to the provider's cache.
pub const USAGE_CACHE_WRITE: &str = "gen_ai.usage.cache_creation.input_tokens";
/// Output tokens that were reasoning.
pub const USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";

/// What the call cost, in its currency; not in the conventions.
pub const USAGE_COST: &str = "gen_ai.usage.cost";
/// The currency of a cost; not in the conventions.
pub const USAGE_COST_CURRENCY: &str = "gen_ai.usage.cost.currency";
/// Seconds until the first piece of the answer.
pub const RESPONSE_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
/// How many numbers a vector has.
pub const EMBEDDINGS_DIMENSIONS: &str = "gen_ai.embeddings.dimension.count";
/// How many texts a request holds; not in the conventions.
pub const REQUEST_INPUT_COUNT: &str = "gen_ai.request.input_count";

/// The tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The id of the call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The sort of tool.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// What the tool is for.
pub const TOOL_DESCRIPTION: &str = "gen_ai.tool.description";
/// Calls of one turn; not in the conventions.
pub const TOOL_COUNT: &str = "tool.count";

/// The class of a failure.
pub const ERROR_TYPE: &str = "error.type";
/// The run; not in the conventions.
pub const RUN_ID: &str = "run.id";

/// Content: the instructions.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// Content: what the model was told.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// Content: what the model said.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Content: the arguments of a call.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: what a call gave.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// Whether tokens of a measurement are input or output.
pub const TOKEN_TYPE: &str = "gen_ai.token.type";
/// The metric of tokens.
pub const METRIC_TOKENS: &str = "gen_ai.client.token.usage";
/// The metric of how long a call of a provider takes.
pub const METRIC_DURATION: &str = "gen_ai.client.operation.duration";
/// The metric of how long the first piece of an answer takes.
pub const METRIC_FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
/// The metric of what calls cost; not in the conventions.
pub const METRIC_COST: &str = "gen_ai.client.operation.cost";
/// The metric of how long a run takes.
pub const METRIC_AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
/// The metric of how long a tool takes.
pub const METRIC_TOOL_DURATION: &str = "gen_ai.execute_tool.duration";

/// A model call.
pub const CHAT: &str = "chat";
/// Vectors of texts.
pub const EMBEDDINGS: &str = "embeddings";
/// Documents in the order of a query; not in the conventions.
pub const RERANK: &str = "rerank";
/// A run of an agent.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// A tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// The tool calls of a turn; not in the conventions.
pub const EXECUTE_TOOLS: &str = "execute_tools";

/// The attributes whose value is a list. A field of a span cannot be one, so it is recorded as JSON text.
pub const LISTS: [&str; 2] = [RESPONSE_FINISH_REASONS, REQUEST_STOP_SEQUENCES];

/// What the conventions call a provider.
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

/// An amount as exporters know numbers. It is for charts; what is billed is counted in decimals.
pub fn amount(cost: Money) -> f64 {
    cost.amount.to_string().parse().unwrap_or_default()
}
