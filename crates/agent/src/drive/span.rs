//! Spans, by the GenAI conventions. Names are here and nowhere else.
//!
//! No prompt, answer or argument is ever recorded.

use provost_core::RunId;
use provost_model::{ModelError, ModelInfo, ModelResponse};
use provost_tool::{ToolError, ToolOutput};
use tracing::{Span, field::Empty, info_span};

use crate::agent::AgentCore;
use crate::error::Error;
use crate::outcome::Outcome;

pub(crate) fn invoke_agent(core: &AgentCore, run_id: RunId) -> Span {
    info_span!(
        "invoke_agent",
        otel.name = %format_args!("invoke_agent {}", core.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = %core.name,
        gen_ai.agent.total_turns = Empty,
        gen_ai.agent.total_tool_calls = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        run.id = %run_id,
        error.type = Empty,
    )
}

/// Fills the current agent span in.
pub(crate) fn close_run(outcome: &Result<Outcome, Error>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(Outcome::Done(result)) => {
            span.record("gen_ai.usage.input_tokens", result.usage.input);
            span.record("gen_ai.usage.output_tokens", result.usage.output);
            span.record("gen_ai.agent.total_turns", result.turns);
            span.record("gen_ai.agent.total_tool_calls", result.tool_calls);
        }
        Ok(_) => {}
        Err(error) => fail(&span, error.code()),
    }
}

pub(crate) fn chat(info: &ModelInfo) -> Span {
    info_span!(
        "chat",
        otel.name = %format_args!("chat {}", info.model),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = %info.provider,
        gen_ai.request.model = %info.model,
        gen_ai.response.id = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
    )
}

pub(crate) fn close_chat(span: &Span, outcome: &Result<ModelResponse, ModelError>) {
    if span.is_disabled() {
        return;
    }
    match outcome {
        Ok(response) => {
            span.record("gen_ai.usage.input_tokens", response.usage.input);
            span.record("gen_ai.usage.output_tokens", response.usage.output);
            span.record("gen_ai.response.finish_reasons", tracing::field::debug(&response.stop));
            if let Some(id) = &response.response_id {
                span.record("gen_ai.response.id", id.as_str());
            }
        }
        Err(error) => fail(span, error.class.as_str()),
    }
}

/// Groups the calls of a turn where there are several.
pub(crate) fn execute_tools(count: usize) -> Span {
    if count < 2 {
        return Span::none();
    }
    info_span!(
        "execute_tools",
        otel.kind = "internal",
        gen_ai.operation.name = "execute_tools",
        tool.count = count
    )
}

pub(crate) fn execute_tool(name: &str, call_id: &str) -> Span {
    info_span!(
        "execute_tool",
        otel.name = %format_args!("execute_tool {name}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.call.id = call_id,
        error.type = Empty,
    )
}

pub(crate) fn close_tool(span: &Span, ran: &Result<ToolOutput, ToolError>) {
    let class = match ran {
        Ok(output) if output.is_error => "tool_error",
        Ok(_) | Err(ToolError::NeedsApproval { .. }) => return,
        Err(ToolError::Rejected(_)) => "rejected",
        Err(_) => "tool_error",
    };
    fail(span, class);
}

fn fail(span: &Span, class: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", class);
}
