//! Spans, by the OpenTelemetry GenAI conventions.
//!
//! Prompts, responses and arguments are never recorded as span fields. An exporter that requests content receives it
//! directly, not through the subscribers, so that no log contains it.

mod content;

use std::time::Duration;

use provost_core::{Role, StopReason, ToolCall, Usage};
use provost_model::{ChatRequest, ModelError, ModelResponse, gen_ai as name};
use provost_tool::{ToolError, ToolOutput, ToolSpec, trace};
use tracing::{Span, field::Empty, info_span};

use super::PreparedRun;
use super::session::RunSession;
use super::setup::DriverContext;
use crate::error::Error;
use crate::outcome::RunOutcome;

/// Creates the span of a run.
pub(crate) fn invoke_agent(prepared: &PreparedRun) -> Span {
    let PreparedRun { definition, options, run_id, source, .. } = prepared;
    let info = options.model.as_ref().unwrap_or(&definition.model).info();
    let span = info_span!(
        "invoke_agent",
        otel.name = %format_args!("invoke_agent {}", definition.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        { name::OPERATION_NAME } = name::INVOKE_AGENT,
        { name::PROVIDER_NAME } = name::provider(&info.provider),
        { name::REQUEST_MODEL } = info.model,
        { name::AGENT_NAME } = &*definition.name,
        { name::AGENT_ID } = &*options.path(&definition.name),
        { name::CONVERSATION_ID } = RunSession::of_run(options, definition).map(|session| session.id().to_owned()),
        { name::AGENT_TURNS } = Empty,
        { name::AGENT_TOOL_CALLS } = Empty,
        { name::USAGE_INPUT } = Empty,
        { name::USAGE_OUTPUT } = Empty,
        { name::USAGE_CACHE_READ } = Empty,
        { name::USAGE_CACHE_WRITE } = Empty,
        { name::USAGE_REASONING } = Empty,
        { name::RUN_ID } = %run_id,
        { name::ERROR_TYPE } = Empty,
    );
    trace::record_content(&span, name::INPUT_MESSAGES, || {
        content::text(Role::User, &source.input_text())
    });
    span
}

/// Records the outcome in the current agent span.
pub(crate) fn close_run(outcome: &Result<RunOutcome, Error>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(RunOutcome::Completed(result)) => {
            record_totals(&span, &result.usage, result.turns, result.tool_calls);
            let said = || content::text(Role::Assistant, &result.output);
            trace::record_content(&span, name::OUTPUT_MESSAGES, said);
        }
        Ok(RunOutcome::Cancelled(summary)) => {
            record_totals(&span, &summary.usage, summary.turns, summary.tool_calls);
        }
        Ok(RunOutcome::Suspended(_) | RunOutcome::Denied { .. }) => {}
        Err(error) => record_error(&span, error.code()),
    }
}

/// Creates the span of a model call.
pub(crate) fn chat(
    cx: &DriverContext,
    session: Option<&RunSession>,
    request: &ChatRequest,
) -> Span {
    let info = cx.model.info();
    let settings = &request.settings;
    let span = info_span!(
        "chat",
        otel.name = %format_args!("chat {}", info.model),
        otel.kind = "client",
        otel.status_code = Empty,
        { name::OPERATION_NAME } = name::CHAT,
        { name::PROVIDER_NAME } = name::provider(&info.provider),
        { name::REQUEST_MODEL } = info.model,
        { name::AGENT_NAME } = &*cx.definition.name,
        { name::CONVERSATION_ID } = session.map(|session| session.session_revision().id),
        { name::OUTPUT_TYPE } = request.output.as_ref().map(|_| "json"),
        { name::REQUEST_STREAM } = true,
        { name::REQUEST_MAX_TOKENS } = settings.max_tokens.map(count),
        { name::REQUEST_TEMPERATURE } = settings.temperature,
        { name::REQUEST_TOP_P } = settings.top_p,
        { name::REQUEST_SEED } = settings.seed,
        { name::REQUEST_STOP_SEQUENCES } = list(&settings.stop),
        { name::RESPONSE_ID } = Empty,
        { name::RESPONSE_MODEL } = Empty,
        { name::RESPONSE_FINISH_REASONS } = Empty,
        { name::USAGE_INPUT } = Empty,
        { name::USAGE_OUTPUT } = Empty,
        { name::USAGE_CACHE_READ } = Empty,
        { name::USAGE_CACHE_WRITE } = Empty,
        { name::USAGE_REASONING } = Empty,
        { name::USAGE_COST } = Empty,
        { name::USAGE_COST_CURRENCY } = Empty,
        { name::RESPONSE_FIRST_CHUNK } = Empty,
        { name::ERROR_TYPE } = Empty,
    );
    if let Some(system) = &request.system {
        trace::record_content(&span, name::SYSTEM_INSTRUCTIONS, || content::instructions(system));
    }
    trace::record_content(&span, name::INPUT_MESSAGES, || content::messages(&request.messages));
    span
}

/// Records the time to the first chunk of a response.
pub(crate) fn first_chunk(took: Duration) {
    Span::current().record(name::RESPONSE_FIRST_CHUNK, took.as_secs_f64());
}

/// Records the response or the error of a model call.
pub(crate) fn close_chat(
    span: &Span,
    cx: &DriverContext,
    outcome: &Result<ModelResponse, ModelError>,
) {
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(response) => {
            if response.usage_known {
                record_usage(span, &response.usage);
            }
            if let Some(cost) = cx.model.cost(response) {
                span.record(name::USAGE_COST, name::amount(cost));
                span.record(name::USAGE_COST_CURRENCY, cost.currency.as_str());
            }
            span.record(name::RESPONSE_FINISH_REASONS, list(&[finish_reason(response.stop)]));
            span.record(name::RESPONSE_ID, response.response_id.as_deref());
            span.record(name::RESPONSE_MODEL, response.message.model.as_deref());
            trace::record_content(span, name::OUTPUT_MESSAGES, || {
                content::message(&response.message)
            });
        }
        Err(error) => record_error(span, error.class.as_str()),
    }
}

/// Creates the span that groups the calls of a turn. No span for a single call.
pub(crate) fn execute_tools(count: usize) -> Span {
    if count < 2 {
        return Span::none();
    }
    info_span!(
        "execute_tools",
        otel.kind = "internal",
        { name::OPERATION_NAME } = name::EXECUTE_TOOLS,
        { name::TOOL_COUNT } = i64::try_from(count).unwrap_or(i64::MAX),
    )
}

/// Creates the span of a tool call.
pub(crate) fn execute_tool(cx: &DriverContext, spec: &ToolSpec, call: &ToolCall) -> Span {
    let span = info_span!(
        "execute_tool",
        otel.name = %format_args!("execute_tool {}", spec.name()),
        otel.kind = "internal",
        otel.status_code = Empty,
        { name::OPERATION_NAME } = name::EXECUTE_TOOL,
        { name::TOOL_NAME } = spec.name(),
        { name::TOOL_CALL_ID } = call.id,
        { name::TOOL_TYPE } = "function",
        { name::TOOL_DESCRIPTION } = spec.def().description,
        { name::AGENT_NAME } = &*cx.definition.name,
        { name::ERROR_TYPE } = Empty,
    );
    trace::record_content(&span, name::TOOL_ARGUMENTS, || content::arguments(call));
    span
}

/// Records the result of a tool call.
pub(crate) fn close_tool(span: &Span, ran: &Result<ToolOutput, ToolError>) {
    if let Ok(output) = ran {
        trace::record_content(span, name::TOOL_RESULT, || content::result(&output.to_text()));
    }
    let class = match ran {
        Ok(output) if output.is_error => "tool_error",
        Ok(_)
        | Err(
            ToolError::NeedsApproval { .. }
            | ToolError::NeedsAnswer { .. }
            | ToolError::WaitsForRuns { .. },
        ) => return,
        Err(ToolError::Rejected(_)) => "rejected",
        Err(_) => "tool_error",
    };
    record_error(span, class);
}

/// Records usage, turns and tool calls.
fn record_totals(span: &Span, usage: &Usage, turns: u32, tool_calls: u32) {
    record_usage(span, usage);
    span.record(name::AGENT_TURNS, i64::from(turns));
    span.record(name::AGENT_TOOL_CALLS, i64::from(tool_calls));
}

/// Records the token counts that are not zero.
fn record_usage(span: &Span, usage: &Usage) {
    span.record(name::USAGE_INPUT, count(usage.input));
    span.record(name::USAGE_OUTPUT, count(usage.output));
    let parts = [
        (name::USAGE_CACHE_READ, usage.cache_read),
        (name::USAGE_CACHE_WRITE, usage.cache_write),
        (name::USAGE_REASONING, usage.reasoning),
    ];
    for (name, tokens) in parts.into_iter().filter(|(_, tokens)| *tokens > 0) {
        span.record(name, count(tokens));
    }
}

/// Records an error class.
fn record_error(span: &Span, class: &str) {
    span.record("otel.status_code", "ERROR");
    span.record(name::ERROR_TYPE, class);
}

/// Converts a count for exporters, which would record an unsigned number as text.
fn count(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Encodes a list as JSON. An empty list is not recorded.
fn list<T: AsRef<str>>(items: &[T]) -> Option<String> {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    (!items.is_empty()).then(|| serde_json::Value::from(items).to_string())
}

/// Returns the stop reason in the terms of the conventions.
fn finish_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence => "stop",
        StopReason::MaxTokens => "length",
        StopReason::ToolUse => "tool_call",
        StopReason::ContentFilter => "content_filter",
        StopReason::Refusal => "refusal",
        StopReason::Cancelled => "cancelled",
        StopReason::Limit => "limit",
        StopReason::Unknown => "unknown",
    }
}
