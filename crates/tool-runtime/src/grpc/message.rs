//! Envelopes as protobuf messages, as defined in `docs/reference/tool-service-v1.proto`.
//!
//! The messages are written by hand, so that no protobuf compiler is needed. A test compares them with the published
//! file.

use std::collections::HashMap;

use provost_core::contract::{
    RequestAuth, RequestRuntime, RequestTool, ResponseError, ResponseOutput, ResponseUsage,
    ToolContractError, ToolRequest, ToolResponse, TraceIds,
};

/// Request envelope as a protobuf message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecuteRequest {
    /// Contract version, always `v1`.
    #[prost(string, tag = "1")]
    pub tool_contract_version: String,
    /// Id of the request. The response repeats it.
    #[prost(string, tag = "2")]
    pub request_id: String,
    /// Id of the calling task.
    #[prost(string, tag = "3")]
    pub task_id: String,
    /// Namespace of the task.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// Name of the calling agent.
    #[prost(string, tag = "5")]
    pub agent: String,
    /// Tool to call.
    #[prost(message, optional, tag = "6")]
    pub tool: Option<Tool>,
    /// Flat arguments.
    #[prost(map = "string, string", tag = "7")]
    pub input: HashMap<String, String>,
    /// Arguments as text. Takes precedence over `input` unless it is empty.
    #[prost(string, tag = "8")]
    pub input_raw: String,
    /// Runtime configuration of the tool.
    #[prost(message, optional, tag = "9")]
    pub runtime: Option<Runtime>,
    /// Names of credentials, without their values.
    #[prost(message, optional, tag = "10")]
    pub auth: Option<Auth>,
    /// Trace of the call.
    #[prost(message, optional, tag = "11")]
    pub trace: Option<Trace>,
    /// Number of the attempt, starting at 1.
    #[prost(uint32, tag = "12")]
    pub attempt: u32,
}

/// Tool to call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Tool {
    /// Name of the tool.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Requested operation.
    #[prost(string, tag = "2")]
    pub operation: String,
    /// Labels of the tool.
    #[prost(string, repeated, tag = "3")]
    pub capabilities: Vec<String>,
    /// Risk level of the tool.
    #[prost(string, tag = "4")]
    pub risk_level: String,
}

/// Runtime configuration of a tool.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Runtime {
    /// Transport.
    #[prost(string, tag = "1")]
    pub mode: String,
    /// Timeout of one attempt in milliseconds.
    #[prost(uint64, tag = "2")]
    pub timeout_ms: u64,
    /// Maximum number of attempts.
    #[prost(uint64, tag = "3")]
    pub max_attempts: u64,
    /// First delay between attempts.
    #[prost(string, tag = "4")]
    pub backoff: String,
    /// Maximum delay between attempts in milliseconds.
    #[prost(uint64, tag = "5")]
    pub max_backoff_ms: u64,
    /// True if delays are randomized.
    #[prost(bool, tag = "6")]
    pub jitter: bool,
}

/// Names of credentials.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Auth {
    /// Authentication profile.
    #[prost(string, tag = "1")]
    pub profile: String,
    /// Name of the secret.
    #[prost(string, tag = "2")]
    pub secret_ref: String,
    /// Requested scopes.
    #[prost(string, repeated, tag = "3")]
    pub scopes: Vec<String>,
}

/// Trace of a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Trace {
    /// Trace id.
    #[prost(string, tag = "1")]
    pub trace_id: String,
    /// Parent span id.
    #[prost(string, tag = "2")]
    pub span_id: String,
}

/// Response envelope as a protobuf message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExecuteResponse {
    /// Contract version, always `v1`.
    #[prost(string, tag = "1")]
    pub tool_contract_version: String,
    /// Id of the request.
    #[prost(string, tag = "2")]
    pub request_id: String,
    /// Status: `ok`, `error` or `denied`.
    #[prost(string, tag = "3")]
    pub status: String,
    /// Output of the call.
    #[prost(message, optional, tag = "4")]
    pub output: Option<Output>,
    /// Resource usage of the call.
    #[prost(message, optional, tag = "5")]
    pub usage: Option<Usage>,
    /// Trace of the request.
    #[prost(message, optional, tag = "6")]
    pub trace: Option<Trace>,
    /// Error of the call. Absent if the status is `ok`.
    #[prost(message, optional, tag = "7")]
    pub error: Option<Failure>,
}

/// Output of a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Output {
    /// Text for the model.
    #[prost(string, tag = "1")]
    pub result: String,
}

/// Resource usage of a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Usage {
    /// Duration in milliseconds.
    #[prost(uint64, tag = "1")]
    pub duration_ms: u64,
    /// Number of the attempt.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// Error of a call.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Failure {
    /// Error code.
    #[prost(string, tag = "1")]
    pub code: String,
    /// Error reason.
    #[prost(string, tag = "2")]
    pub reason: String,
    /// True if a retry may succeed.
    #[prost(bool, tag = "3")]
    pub retryable: bool,
    /// Error message.
    #[prost(string, tag = "4")]
    pub message: String,
    /// Error details.
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
            ToolContractError::final_failure(format!(
                "the response is not a valid response envelope: {error}"
            ))
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
