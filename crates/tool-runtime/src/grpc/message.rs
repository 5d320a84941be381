//! The envelopes as protobuf messages, as `docs/reference/tool-service-v1.proto` defines them.
//!
//! They are written by hand so that building needs no protobuf compiler; a test keeps them equal to the published file.

use std::collections::HashMap;

use provost_core::contract::{
    RequestAuth, RequestRuntime, RequestTool, ResponseError, ResponseOutput, ResponseUsage,
    ToolContractError, ToolRequest, ToolResponse, TraceIds,
};

/// The request envelope.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecuteRequest {
    /// Always `v1`.
    #[prost(string, tag = "1")]
    pub tool_contract_version: String,
    /// Names this request; the answer repeats it.
    #[prost(string, tag = "2")]
    pub request_id: String,
    /// The task that asks.
    #[prost(string, tag = "3")]
    pub task_id: String,
    /// Where the task belongs.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// The agent that asks.
    #[prost(string, tag = "5")]
    pub agent: String,
    /// What is called.
    #[prost(message, optional, tag = "6")]
    pub tool: Option<Tool>,
    /// Flat arguments.
    #[prost(map = "string, string", tag = "7")]
    pub input: HashMap<String, String>,
    /// The arguments as text; counts instead of `input` if it is not empty.
    #[prost(string, tag = "8")]
    pub input_raw: String,
    /// A copy of the tool's own policy.
    #[prost(message, optional, tag = "9")]
    pub runtime: Option<Runtime>,
    /// Names of credentials, never their values.
    #[prost(message, optional, tag = "10")]
    pub auth: Option<Auth>,
    /// The trace that the call belongs to.
    #[prost(message, optional, tag = "11")]
    pub trace: Option<Trace>,
    /// Counts from 1.
    #[prost(uint32, tag = "12")]
    pub attempt: u32,
}

/// What is called.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tool {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it shall do.
    #[prost(string, tag = "2")]
    pub operation: String,
    /// Labels.
    #[prost(string, repeated, tag = "3")]
    pub capabilities: Vec<String>,
    /// How much harm it can do.
    #[prost(string, tag = "4")]
    pub risk_level: String,
}

/// A copy of the tool's own policy.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Runtime {
    /// The transport.
    #[prost(string, tag = "1")]
    pub mode: String,
    /// How long one attempt may take.
    #[prost(uint64, tag = "2")]
    pub timeout_ms: u64,
    /// How often it is tried.
    #[prost(uint64, tag = "3")]
    pub max_attempts: u64,
    /// The first pause between attempts.
    #[prost(string, tag = "4")]
    pub backoff: String,
    /// The longest pause.
    #[prost(uint64, tag = "5")]
    pub max_backoff_ms: u64,
    /// Are pauses spread at random?
    #[prost(bool, tag = "6")]
    pub jitter: bool,
}

/// Names of credentials.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Auth {
    /// How it is authenticated.
    #[prost(string, tag = "1")]
    pub profile: String,
    /// The name of the secret.
    #[prost(string, tag = "2")]
    pub secret_ref: String,
    /// What is asked for.
    #[prost(string, repeated, tag = "3")]
    pub scopes: Vec<String>,
}

/// The trace that a call belongs to.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Trace {
    /// The trace.
    #[prost(string, tag = "1")]
    pub trace_id: String,
    /// The span above.
    #[prost(string, tag = "2")]
    pub span_id: String,
}

/// The response envelope.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecuteResponse {
    /// Always `v1`.
    #[prost(string, tag = "1")]
    pub tool_contract_version: String,
    /// The request's.
    #[prost(string, tag = "2")]
    pub request_id: String,
    /// `ok`, `error` or `denied`.
    #[prost(string, tag = "3")]
    pub status: String,
    /// What it gave.
    #[prost(message, optional, tag = "4")]
    pub output: Option<Output>,
    /// What it took.
    #[prost(message, optional, tag = "5")]
    pub usage: Option<Usage>,
    /// The request's.
    #[prost(message, optional, tag = "6")]
    pub trace: Option<Trace>,
    /// Why it did not work.
    #[prost(message, optional, tag = "7")]
    pub error: Option<Failure>,
}

/// What a call gave.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Output {
    /// Text for the model.
    #[prost(string, tag = "1")]
    pub result: String,
}

/// What a call took.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Usage {
    /// How long it took.
    #[prost(uint64, tag = "1")]
    pub duration_ms: u64,
    /// Which attempt it was.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// Why a call did not work.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Failure {
    /// One of the codes.
    #[prost(string, tag = "1")]
    pub code: String,
    /// One of the reasons.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// May the same call succeed later?
    #[prost(bool, tag = "3")]
    pub retryable: bool,
    /// A sentence.
    #[prost(string, tag = "4")]
    pub message: String,
    /// Facts for programs.
    #[prost(map = "string, string", tag = "5")]
    pub details: HashMap<String, String>,
}

impl From<ToolRequest> for ExecuteRequest {
    fn from(request: ToolRequest) -> Self {
        let RequestTool { name, operation, capabilities, risk_level } = request.tool;
        let runtime = request.runtime;
        let RequestAuth { profile, secret_ref, scopes } = request.auth;
        Self {
            tool_contract_version: request.tool_contract_version,
            request_id: request.request_id,
            task_id: request.task_id,
            namespace: request.namespace,
            agent: request.agent,
            tool: Some(Tool { name, operation, capabilities, risk_level }),
            input: request.input.into_iter().collect(),
            input_raw: request.input_raw,
            runtime: Some(Runtime {
                mode: runtime.mode,
                timeout_ms: runtime.timeout_ms,
                max_attempts: runtime.max_attempts,
                backoff: runtime.backoff,
                max_backoff_ms: runtime.max_backoff_ms,
                jitter: runtime.jitter,
            }),
            auth: Some(Auth { profile, secret_ref, scopes }),
            trace: Some(request.trace.into()),
            attempt: request.attempt,
        }
    }
}

impl From<ExecuteRequest> for ToolRequest {
    fn from(request: ExecuteRequest) -> Self {
        let Tool { name, operation, capabilities, risk_level } = request.tool.unwrap_or_default();
        let runtime = request.runtime.unwrap_or_default();
        let Auth { profile, secret_ref, scopes } = request.auth.unwrap_or_default();
        Self {
            tool_contract_version: request.tool_contract_version,
            request_id: request.request_id,
            task_id: request.task_id,
            namespace: request.namespace,
            agent: request.agent,
            tool: RequestTool { name, operation, capabilities, risk_level },
            input: request.input.into_iter().collect(),
            input_raw: request.input_raw,
            runtime: RequestRuntime {
                mode: runtime.mode,
                timeout_ms: runtime.timeout_ms,
                max_attempts: runtime.max_attempts,
                backoff: runtime.backoff,
                max_backoff_ms: runtime.max_backoff_ms,
                jitter: runtime.jitter,
            },
            auth: RequestAuth { profile, secret_ref, scopes },
            trace: request.trace.unwrap_or_default().into(),
            attempt: request.attempt,
        }
    }
}

impl From<TraceIds> for Trace {
    fn from(TraceIds { trace_id, span_id }: TraceIds) -> Self {
        Self { trace_id, span_id }
    }
}

impl From<Trace> for TraceIds {
    fn from(Trace { trace_id, span_id }: Trace) -> Self {
        Self { trace_id, span_id }
    }
}

impl From<ToolResponse> for ExecuteResponse {
    fn from(response: ToolResponse) -> Self {
        let ResponseUsage { duration_ms, attempt } = response.usage;
        Self {
            tool_contract_version: response.tool_contract_version,
            request_id: response.request_id,
            status: response.status.as_str().to_owned(),
            output: Some(Output { result: response.output.result }),
            usage: Some(Usage { duration_ms, attempt }),
            trace: Some(response.trace.into()),
            error: response.error.map(|error| Failure {
                code: error.code,
                reason: error.reason,
                retryable: error.retryable,
                message: error.message,
                details: error.details.into_iter().collect(),
            }),
        }
    }
}

impl TryFrom<ExecuteResponse> for ToolResponse {
    type Error = ToolContractError;

    fn try_from(response: ExecuteResponse) -> Result<Self, ToolContractError> {
        let status = response.status.trim().parse().map_err(|error| {
            ToolContractError::final_failure(format!("the answer is no response envelope: {error}"))
        })?;
        let Usage { duration_ms, attempt } = response.usage.unwrap_or_default();
        Ok(Self {
            tool_contract_version: response.tool_contract_version,
            request_id: response.request_id,
            status,
            output: ResponseOutput { result: response.output.unwrap_or_default().result },
            usage: ResponseUsage { duration_ms, attempt },
            trace: response.trace.unwrap_or_default().into(),
            error: response.error.map(|error| ResponseError {
                code: error.code,
                reason: error.reason,
                retryable: error.retryable,
                message: error.message,
                details: error.details.into_iter().collect(),
            }),
        })
    }
}

#[cfg(test)]
mod tests;
